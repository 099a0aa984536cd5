// Package commtest is the suite that every group of ranks passes: what package comm says in words.
//
// A test lets each rank call Check at the same time, in a goroutine or a process of its own. What must come out is computed here from the
// numbers of the ranks, in float64.
package commtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// sizes are the counts per rank that are tried: none, one, odd ones, one that fills blocks, and one of several blocks and messages.
var sizes = []int{0, 1, 7, 1024, 20_011}

// Suite is what a group's ranks try together. The zero Suite is all that package comm says.
type Suite struct {
	Counts []int // elements per rank, if not the usual ones
	// Loose is for groups whose sums and extremes are a library's, that rounds half-precision sums at each step and may lose a NaN in Max and Min. Only in
	// that may they differ.
	Loose bool
}

// Check is Suite.Check with counts.
func Check(c comm.Comm, counts ...int) error { return Suite{Counts: counts}.Check(c) }

// Check tries all operations on a rank's Comm, with all types, several sizes, in place and not, on the default stream and on another
// one. All ranks call it together. It returns the first difference.
func (u Suite) Check(c comm.Comm) error {
	counts := u.Counts
	if len(counts) == 0 {
		counts = sizes
	}
	if why := isnil.Why("Comm", c); why != "" {
		return errors.New("commtest: Check: " + why)
	}
	queue, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	memory, err := newSlab(c.Device())
	if err != nil {
		return errors.Join(err, queue.Close())
	}
	err = errors.Join(
		checkStream(c, c.Device().DefaultStream(), memory, counts),
		checkStream(c, queue, memory, counts[:min(3, len(counts))]),
		u.checkRounding(c, memory),
		checkSameBits(c, memory),
		u.checkNaN(c, memory),
		checkOrder(c, memory),
		checkFollow(c, memory),
		checkBarrier(c),
	)
	if err != nil {
		c.Abort(err) // or the others wait
	}
	return errors.Join(err, queue.Close(), c.Device().Free(memory.start))
}

// checkStream tries the operations on one stream.
func checkStream(c comm.Comm, s device.Stream, m *slab, counts []int) error {
	for _, t := range dtype.All() {
		for _, count := range counts {
			for _, inPlace := range []bool{false, true} {
				if err := checkOperations(try{c: c, s: s, m: m, t: t, n: count, inPlace: inPlace}); err != nil {
					return fmt.Errorf("%v, %d elements, in place %v: %w", t, count, inPlace, err)
				}
			}
		}
	}
	return nil
}

func checkOperations(y try) error {
	for _, one := range []func(*try) error{tryBroadcast, tryAllGather, tryAllToAll, tryReductions} {
		y.m.used = 0 // what came before has been waited for
		if err := one(&y); err != nil {
			return err
		}
	}
	return nil
}

// try is one combination.
type try struct {
	c       comm.Comm
	s       device.Stream
	m       *slab
	t       dtype.DType
	n       int
	inPlace bool
}

// value is the i-th element that a rank gives: whole, and so small that sums of 16 ranks are exact in all types.
func value(t dtype.DType, rank, i int) float64 {
	switch v := (i*7 + rank*5 + i/1000) % 16; {
	case t == dtype.Bool:
		return float64(v % 2)
	case t == dtype.Uint8:
		return float64(v)
	default:
		return float64(v - 8)
	}
}

// values are count elements of a rank from its element first on.
func values(t dtype.DType, rank, first, count int) []float64 {
	v := make([]float64, count)
	for i := range v {
		v[i] = value(t, rank, first+i)
	}
	return v
}

func tryBroadcast(y *try) error {
	for root := range y.c.Size() {
		buf, err := y.put(values(y.t, y.c.Rank(), 0, y.n))
		if err != nil {
			return err
		}
		err = y.c.Broadcast(y.s, buf.Buffer, root)
		if err = y.same("Broadcast", buf, values(y.t, root, 0, y.n), err); err != nil {
			return err
		}
	}
	return nil
}

func tryAllGather(y *try) error {
	rank, size := y.c.Rank(), y.c.Size()
	var want []float64
	for r := range size {
		want = append(want, values(y.t, r, 0, y.n)...)
	}
	dst, err := y.put(make([]float64, y.n*size))
	if err != nil {
		return err
	}
	src, err := y.put(values(y.t, rank, 0, y.n))
	if err != nil {
		return err
	}
	from := src.Buffer
	if y.inPlace {
		from = dst.part(rank, size)
		if err := y.s.CopyToDevice(from.Ptr, encode(y.t, values(y.t, rank, 0, y.n))); err != nil {
			return err
		}
	}
	return y.same("AllGather", dst, want, y.c.AllGather(y.s, dst.Buffer, from))
}

func tryAllToAll(y *try) error {
	rank, size := y.c.Rank(), y.c.Size()
	var want []float64
	for r := range size {
		want = append(want, values(y.t, r, rank*y.n, y.n)...)
	}
	dst, err := y.put(make([]float64, y.n*size))
	if err != nil {
		return err
	}
	src, err := y.put(values(y.t, rank, 0, y.n*size))
	if err != nil {
		return err
	}
	return y.same("AllToAll", dst, want, y.c.AllToAll(y.s, dst.Buffer, src.Buffer))
}

func tryReductions(y *try) error {
	if !y.t.IsFloat() && y.t != dtype.Int64 {
		return nil
	}
	for _, op := range []comm.Op{comm.Sum, comm.Mean, comm.Max, comm.Min} {
		if err := tryAllReduce(y, op); err != nil {
			return err
		}
		if err := tryReduceScatter(y, op); err != nil {
			return err
		}
	}
	return nil
}

func tryAllReduce(y *try, op comm.Op) error {
	src, err := y.put(values(y.t, y.c.Rank(), 0, y.n))
	if err != nil {
		return err
	}
	dst, err := y.put(make([]float64, y.n))
	if err != nil {
		return err
	}
	to := dst
	if y.inPlace {
		to.Buffer, to.guard = src.Buffer, src.guard
	}
	err = y.c.AllReduce(y.s, to.Buffer, src.Buffer, op)
	return y.same("AllReduce "+op.String(), to, combined(y.t, op, y.c.Size(), 0, y.n), err)
}

func tryReduceScatter(y *try, op comm.Op) error {
	rank, size := y.c.Rank(), y.c.Size()
	src, err := y.put(values(y.t, rank, 0, y.n*size))
	if err != nil {
		return err
	}
	dst, err := y.put(make([]float64, y.n))
	if err != nil {
		return err
	}
	to := dst
	if y.inPlace {
		to.Buffer, to.guard = src.part(rank, size), src.guard
	}
	err = y.c.ReduceScatter(y.s, to.Buffer, src.Buffer, op)
	return y.same("ReduceScatter "+op.String(), to, combined(y.t, op, size, rank*y.n, y.n), err)
}

// combined is what a reduction of all ranks' elements from first on gives.
func combined(t dtype.DType, op comm.Op, size, first, count int) []float64 {
	v := values(t, 0, first, count)
	for i := range v {
		for rank := 1; rank < size; rank++ {
			switch o := value(t, rank, first+i); op {
			case comm.Max:
				v[i] = max(v[i], o)
			case comm.Min:
				v[i] = min(v[i], o)
			default:
				v[i] += o
			}
		}
		if op == comm.Mean {
			v[i] = mean(t, v[i], size)
		}
	}
	return v
}

// mean is sum/n in type t.
func mean(t dtype.DType, sum float64, n int) float64 {
	if t == dtype.Int64 {
		return float64(int64(sum) / int64(n))
	}
	return decode(t, encode(t, []float64{sum / float64(n)}))[0]
}

// checkRounding sums 256 on the first rank and 1 on the others in bfloat16, which has 8 bits: rounded at each step the ones are lost.
func (u Suite) checkRounding(c comm.Comm, m *slab) error {
	y := &try{c: c, s: c.Device().DefaultStream(), m: m, t: dtype.BFloat16, n: 5}
	mine := 1.0
	if c.Rank() == 0 {
		mine = 256
	}
	buf, err := y.put(slices.Repeat([]float64{mine}, y.n))
	if err != nil {
		return err
	}
	want := decode(y.t, encode(y.t, []float64{256 + float64(c.Size()-1)}))
	err = c.AllReduce(y.s, buf.Buffer, buf.Buffer, comm.Sum)
	if u.Loose && err == nil {
		b, err := y.take(buf)
		if err != nil {
			return err
		}
		for _, v := range decode(y.t, b) {
			if v < 256 || v > want[0] {
				return fmt.Errorf("AllReduce that rounds at each step: %v is not between 256 and %v", v, want[0])
			}
		}
		return nil
	}
	return y.same("AllReduce that rounds", buf, slices.Repeat(want, y.n), err)
}

// checkSameBits sums fractions, where the order counts, and compares the ranks' results bit by bit.
func checkSameBits(c comm.Comm, m *slab) error {
	for _, t := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.Float16, dtype.BFloat16} {
		y := &try{c: c, s: c.Device().DefaultStream(), m: m, t: t, n: 40_003}
		m.used = 0
		mine := values(t, c.Rank(), 0, y.n)
		for i := range mine {
			mine[i] /= float64(3 + (i+c.Rank())%5)
		}
		buf, err := y.put(mine)
		if err != nil {
			return err
		}
		if err := c.AllReduce(y.s, buf.Buffer, buf.Buffer, comm.Sum); err != nil {
			return err
		}
		own, err := y.take(buf)
		if err != nil {
			return err
		}
		first, err := y.putBytes(own)
		if err != nil {
			return err
		}
		if err := c.Broadcast(y.s, first.Buffer, 0); err != nil {
			return err
		}
		of, err := y.take(first)
		if err != nil {
			return err
		}
		if !slices.Equal(own, of) {
			return fmt.Errorf("AllReduce of %v gives rank %d other bits than rank 0", t, c.Rank())
		}
	}
	return nil
}

// checkNaN looks for the NaN of one rank in the largest and smallest values of all, whichever rank has it. If the suite is loose only the call must succeed.
func (u Suite) checkNaN(c comm.Comm, m *slab) error {
	for _, t := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.Float16, dtype.BFloat16} {
		for _, op := range []comm.Op{comm.Max, comm.Min} {
			y := &try{c: c, s: c.Device().DefaultStream(), m: m, t: t, n: c.Size()}
			m.used = 0
			mine := values(t, c.Rank(), 0, y.n)
			mine[c.Rank()] = math.NaN()
			buf, err := y.put(mine)
			if err == nil {
				err = c.AllReduce(y.s, buf.Buffer, buf.Buffer, op)
			}
			if err != nil {
				return err
			}
			b, err := y.take(buf)
			if err != nil {
				return err
			}
			for i, v := range decode(t, b) {
				if !math.IsNaN(v) && !u.Loose {
					return fmt.Errorf("AllReduce %v of %v: element %d, which is NaN on rank %d, is %v", op, t, i, i, v)
				}
			}
		}
	}
	return nil
}

// checkOrder puts collectives on two streams by turns: the second stream comes to its work first, and still all ranks find each other.
func checkOrder(c comm.Comm, m *slab) error {
	first, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	second, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	release := make(chan struct{})
	if executor, ok := first.(device.Executor); ok && c.Rank()%2 == 0 {
		if err := executor.Submit("held up", func() error { <-release; return nil }); err != nil {
			return err
		}
	}
	var tries []*try
	var bufs []owned
	for i := range 6 {
		y := &try{c: c, s: []device.Stream{first, second}[i%2], m: m, t: dtype.Float32, n: 10 + i}
		buf, err := y.put(values(y.t, c.Rank(), i, y.n))
		if err == nil {
			err = c.AllReduce(y.s, buf.Buffer, buf.Buffer, comm.Sum)
		}
		if err != nil {
			close(release)
			return err
		}
		tries, bufs = append(tries, y), append(bufs, buf)
	}
	close(release)
	for i, y := range tries {
		if err := y.same("AllReduce on one of two streams", bufs[i], combined(y.t, comm.Sum, c.Size(), i, y.n), nil); err != nil {
			return err
		}
	}
	return errors.Join(first.Close(), second.Close())
}

// checkFollow reads on one stream what a collective has left on another.
func checkFollow(c comm.Comm, m *slab) error {
	side, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	reader, err := c.Device().NewStream()
	if err != nil {
		return errors.Join(err, side.Close())
	}
	e, err := c.Device().NewEvent()
	if err != nil {
		return errors.Join(err, side.Close(), reader.Close())
	}
	m.used = 0
	y := &try{c: c, s: side, m: m, t: dtype.Float32, n: 100}
	buf, err := y.put(values(y.t, c.Rank(), 0, y.n))
	if err == nil {
		err = errors.Join(c.AllReduce(side, buf.Buffer, buf.Buffer, comm.Sum), side.Record(e), reader.Wait(e), c.Follow(reader))
	}
	if err == nil {
		y.s = reader
		err = y.same("AllReduce read on another stream", buf, combined(y.t, comm.Sum, c.Size(), 0, y.n), nil)
	}
	return errors.Join(err, e.Close(), side.Close(), reader.Close())
}

func checkBarrier(c comm.Comm) error {
	before := c.Stats().Barrier.Calls
	for range 3 {
		if err := c.Barrier(context.Background()); err != nil {
			return err
		}
	}
	if n := c.Stats().Barrier.Calls - before; n != 3 {
		return fmt.Errorf("3 barriers were counted as %d", n)
	}
	return nil
}
