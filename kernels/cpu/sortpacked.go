package cpu

import (
	"sync/atomic"

	"github.com/chewxy/math32"
)

// Sorting of packed entries, which are numbers: the loops of sort.go without calls for each entry.

// packFloats makes the entries of values, the first of which has place first. It is keyFloat32 without branches for numbers.
func packFloats(e []packed, values []float32, first int, flip uint64) {
	values = values[:len(e)]
	for i, v := range values {
		b := math32.Float32bits(v)
		key := b ^ (uint32(int32(b)>>31) | 1<<31)
		if b<<1-1 >= 0xff<<24 { // 0 of either sign, or NaN
			key = keyFloat32(v)
		}
		e[i] = uint64(key^uint32(flip))<<32 | uint64(uint32(first+i))
	}
}

// orderPacked sorts from by the bytes of the keys, the least first, and leaves out those that all entries have in common. to is memory of
// the same length; the result is in one of both.
func orderPacked(from, to []packed) []packed {
	if len(from) < packedRadix {
		sortByNetwork(from)
		return from
	}
	var counts [4][256]uint32
	for _, e := range from {
		counts[0][uint8(e>>32)]++
		counts[1][uint8(e>>40)]++
		counts[2][uint8(e>>48)]++
		counts[3][uint8(e>>56)]++
	}
	for k := range counts {
		count, shift := &counts[k], 32+8*k
		if int(count[uint8(from[0]>>shift)]) == len(from) {
			continue
		}
		var sum uint32
		for d, c := range count {
			count[d] = sum
			sum += c
		}
		to = to[:len(from)]
		for _, e := range from {
			d := uint8(e >> shift)
			to[count[d]] = e
			count[d]++
		}
		from, to = to, from
	}
	return from
}

// exchange is a step of a sorting network: of the entries at two places the lesser comes first.
type exchange struct{ a, b uint8 }

// networks are those of each number of entries, made when they are needed for the first time.
var networks [packedRadix]atomic.Pointer[[]exchange]

// network is Batcher's odd-even merge sort of n entries (K. E. Batcher, Sorting networks and their applications, 1968).
func network(n int) []exchange {
	if made := networks[n].Load(); made != nil {
		return *made
	}
	var steps []exchange
	for run := 1; run < n; run *= 2 {
		for gap := run; gap > 0; gap /= 2 {
			for first := gap % run; first+gap < n; first += 2 * gap {
				for i := first; i < min(first+gap, n-gap); i++ {
					if i/(2*run) == (i+gap)/(2*run) {
						steps = append(steps, exchange{uint8(i), uint8(i + gap)})
					}
				}
			}
		}
	}
	networks[n].Store(&steps)
	return steps
}

// sortByNetwork is orderPacked for few entries: which of two is less is a coin's toss, so no branch depends on it.
func sortByNetwork(e []packed) {
	var all [1 << 8]packed // any uint8 is a place of it
	copy(all[:], e)
	for _, x := range network(len(e)) {
		a, b := all[x.a], all[x.b]
		all[x.a], all[x.b] = min(a, b), max(a, b)
	}
	copy(e, all[:])
}

// packedRadix is the number of entries from which on orderPacked sorts by bytes.
const packedRadix = 200

// leastPacked fills heap with the least of all entries, in no order.
func leastPacked(heap, all []packed) {
	copy(heap, all)
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftPacked(heap, i)
	}
	most := heap[0]
	for _, e := range all[len(heap):] {
		if e < most {
			heap[0] = e
			siftPacked(heap, 0)
			most = heap[0]
		}
	}
}

func siftPacked(heap []packed, i int) {
	e := heap[i]
	for child := 2*i + 1; child < len(heap); child = 2*i + 1 {
		if child+1 < len(heap) && heap[child] < heap[child+1] {
			child++
		}
		if e >= heap[child] {
			break
		}
		heap[i] = heap[child]
		i = child
	}
	heap[i] = e
}
