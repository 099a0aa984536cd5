package memory

import "math/bits"

// Sizes of PyTorch's allocator, in bytes. See doc.go for the overview.
const (
	kib = 1 << 10
	mib = 1 << 20

	minBlock            = 512      // every block size is a multiple; the smallest remainder that the small pool splits off
	smallLimit          = 1 * mib  // rounded sizes up to this go to the small pool
	smallSegment        = 2 * mib  // what the driver is asked for on behalf of the small pool
	defaultLargeSegment = 20 * mib // what the driver is asked for on behalf of sizes below largeThreshold
	largeThreshold      = 10 * mib // from here on segments are made to measure ...
	largeRounding       = 2 * mib  // ... in multiples of this

	maxRequest = 1 << 60 // requests of this size and more are refused outright (1 EiB)

	unlimited = ^uint64(0)
)

// poolKind tells the two pools of a stream apart.
type poolKind uint8

const (
	smallPool poolKind = iota
	largePool
	poolKinds
)

func (k poolKind) String() string {
	if k == smallPool {
		return "small"
	}
	return "large"
}

// pool is where blocks of a size are. Where free pages move, small blocks leave no holes that would have to be kept from large ones.
func (p *policy) pool(rounded uint64) poolKind {
	if p.compaction != 0 && p.expandable {
		return largePool
	}
	return poolFor(rounded)
}

func poolFor(rounded uint64) poolKind {
	if rounded <= smallLimit {
		return smallPool
	}
	return largePool
}

// roundUp returns the next multiple of unit, a power of two or not.
func roundUp(n, unit uint64) uint64 {
	return (n + unit - 1) / unit * unit
}

// roundDivision rounds n up to one of d equally spaced sizes per octave; d is a power of two of at least 2. Powers of two
// are returned unchanged.
func roundDivision(n, d uint64) uint64 {
	if n&(n-1) == 0 {
		return n
	}
	p := uint64(1) << (bits.Len64(n) - 1)
	step := p / d
	if step == 0 {
		return 2 * p
	}
	return roundUp(n, step)
}

// roundupIntervals is the number of octaves that roundup_power2_divisions can set: [1 MiB, 2 MiB) ... [32 GiB, 64 GiB).
const roundupIntervals = 16

// interval is the index of the octave of n bytes, clamped to the first and last.
func interval(n uint64) int {
	i := bits.Len64(n) - 1 - 20
	return min(max(i, 0), roundupIntervals-1)
}

// blockSize is the size of the block that serves a request.
func (p *policy) blockSize(request uint64) uint64 {
	if request < minBlock {
		return minBlock
	}
	if p.roundup {
		if d := uint64(p.divisions[interval(request)]); d > 1 && request > minBlock*d {
			return roundDivision(request, d)
		}
	}
	return (request + minBlock - 1) &^ (minBlock - 1)
}

// segmentSize is what the driver is asked for when no cached block serves a block of the given size.
func (p *policy) segmentSize(rounded uint64) uint64 {
	switch {
	case rounded <= smallLimit:
		return smallSegment
	case rounded < largeThreshold:
		return p.largeSegment
	default:
		return roundUp(rounded, largeRounding)
	}
}

// tooLarge reports whether a block must not serve a request of the given rounded size.
func (p *policy) tooLarge(block, size uint64) bool {
	if size < p.maxSplit {
		return block >= p.maxSplit // an oversize block is for oversize requests
	}
	return block >= size+p.maxNonSplit // too much of it would be wasted, as it may not be split
}

// splits decides whether a block of rounded bytes leaves remainder bytes behind as a block of its own.
func (p *policy) splits(kind poolKind, rounded, remainder uint64) bool {
	if kind == smallPool || p.expandable {
		return remainder >= minBlock
	}
	return rounded < p.maxSplit && remainder > smallLimit
}
