package parallel

import (
	"slices"

	"github.com/cistern-ml/cistern/device/dtype"
)

// Where parameters lie in what is sent at once, by arithmetic alone: training and predictions share it.

// entry is what a layout needs to know of a parameter.
type entry struct {
	name  string
	dtype dtype.DType
	count int // elements
	unit  int // with ZeRO 3: which unit it is gathered with
}

// span is where a parameter lies in a flat array.
type span struct {
	entry  int // which parameter
	offset int // in elements
}

// flat is an array of parameters of one type, one behind the other.
type flat struct {
	dtype  dtype.DType
	spans  []span
	count  int // elements, with what is left empty
	unit   int
	bytes  int // of the parameters
	opened int // the place in the order of the first of them
}

// alignment is what shards and, in them, parameters begin at a multiple of, in bytes: the widest load of kernels.
const alignment = 16

// aligned is n elements of a type rounded up to where the next parameter may begin.
func aligned(n int, dt dtype.DType) int {
	unit := max(alignment/dt.Size(), 1)
	return (n + unit - 1) / unit * unit
}

// add puts a parameter at the end.
func (f *flat) add(i int, e *entry, align bool) {
	if align {
		f.count = aligned(f.count, f.dtype)
	}
	f.spans = append(f.spans, span{i, f.count})
	f.count += e.count
	f.bytes += e.count * f.dtype.Size()
}

// shard is how many elements each of n ranks has.
func (f *flat) shard(n int) int { return aligned((f.count+n-1)/n, f.dtype) }

// padded is the length of an array that n equal shards make.
func (f *flat) padded(n int) int { return n * f.shard(n) }

// bucketed cuts parameters, in the given order, into arrays of at least the given bytes (the first of all and the others), each of one type, as PyTorch's
// compute_bucket_assignment_by_size does: there is one open array for each type.
func bucketed(entries []entry, order []int, first, rest int, align bool) []flat {
	var closed []flat
	open := map[dtype.DType]*flat{}
	limit := first
	for at, i := range order {
		e := &entries[i]
		f := open[e.dtype]
		if f == nil {
			f = &flat{dtype: e.dtype, opened: at}
			open[e.dtype] = f
		}
		f.add(i, e, align)
		if f.bytes >= limit {
			closed, limit = append(closed, *f), rest
			delete(open, e.dtype)
		}
	}
	for _, f := range open {
		closed = append(closed, *f)
	}
	slices.SortFunc(closed, func(a, b flat) int { return a.opened - b.opened })
	return closed
}

// united puts the parameters of each unit and type into one array, in the order of the units.
func united(entries []entry) []flat {
	var all []flat
	at := map[[2]int]int{}
	for i := range entries {
		e := &entries[i]
		key := [2]int{e.unit, int(e.dtype)}
		k, ok := at[key]
		if !ok {
			k = len(all)
			at[key], all = k, append(all, flat{dtype: e.dtype, unit: e.unit, opened: i})
		}
		all[k].add(i, e, true)
	}
	slices.SortStableFunc(all, func(a, b flat) int { return a.unit - b.unit })
	return all
}

// reversed is the order in which a backward pass is expected to come to n parameters.
func reversed(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}

// part is what of a parameter a rank has.
type part struct {
	span   int // in the array's spans
	from   int // the first element of the parameter
	count  int
	offset int // in the rank's shard
}

// parts are what a rank of n has of an array.
func (f *flat) parts(entries []entry, rank, n int) []part {
	shard := f.shard(n)
	begin, end := rank*shard, (rank+1)*shard
	var all []part
	for i, s := range f.spans {
		from, to := max(s.offset, begin), min(s.offset+entries[s.entry].count, end)
		if from < to {
			all = append(all, part{i, from - s.offset, to - from, from - begin})
		}
	}
	return all
}
