package kernels

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/timeline"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// chainRig is two devices with the same numbers in memory: on one each operation runs when it is launched, on the other all wait behind a gate.
type chainRig struct {
	t      *testing.T
	inline device.Device
	queued device.Device
	queue  device.Executor
	of     [2]device.Ptr
	bytes  int
}

func newChainRig(t *testing.T, elements int) *chainRig {
	r := &chainRig{t: t, inline: host.New(), queued: host.New(), bytes: 4 * elements}
	s, err := r.queued.NewStream()
	require.NoError(t, err)
	r.queue = s.(device.Executor)
	for i, d := range []device.Device{r.inline, r.queued} {
		r.of[i], err = d.Malloc(uint64(r.bytes))
		require.NoError(t, err)
		memory := host.Bytes(r.of[i], uint64(r.bytes))
		rng := rand.New(rand.NewPCG(1, 2))
		for k := range elements {
			binary.LittleEndian.PutUint32(memory[4*k:], math.Float32bits(float32(rng.NormFloat64())))
		}
	}
	t.Cleanup(func() {
		require.NoError(t, r.inline.Close())
		require.NoError(t, r.queued.Close())
	})
	return r
}

// launch runs a call, whose pointers are places in the memory, on both devices.
func (r *chainRig) launch(c *op.Call) {
	for i, s := range []device.Stream{r.inline.DefaultStream(), r.queue} {
		d := c.Clone()
		d.Stream = s
		for k := range d.Out {
			d.Out[k].Ptr += r.of[i]
		}
		for k := range d.In {
			d.In[k].Ptr += r.of[i]
		}
		require.NoError(r.t, Launch(d))
	}
}

// gate lets what is launched from now on wait, to be taken together when the channel is closed.
func (r *chainRig) gate() chan struct{} {
	begun, open := make(chan struct{}), make(chan struct{})
	require.NoError(r.t, r.queue.Submit("gate", func() error { close(begun); <-open; return nil }))
	<-begun
	return open
}

// behindGate makes what f launches wait on the queue until all of it is there.
func (r *chainRig) behindGate(f func()) {
	open := r.gate()
	f()
	close(open)
	require.NoError(r.t, r.queue.Synchronize(context.Background()))
}

func (r *chainRig) equal(what string, args ...any) {
	a, b := host.Bytes(r.of[0], uint64(r.bytes)), host.Bytes(r.of[1], uint64(r.bytes))
	require.True(r.t, string(a) == string(b), append([]any{what}, args...)...)
}

// at is a contiguous view of float32.
func at(element int, shape ...int) op.View {
	v := op.View{Ptr: device.Ptr(4 * element), DType: dtype.Float32, NDim: len(shape)}
	stride := 1
	for d := len(shape) - 1; d >= 0; d-- {
		v.Shape[d], v.Strides[d] = shape[d], stride
		stride *= shape[d]
	}
	return v
}

var (
	chainUnary  = []op.ID{op.Neg, op.Tanh, op.AddScalar, op.MulScalar, op.ReLU, op.Copy, op.Exp, op.Square}
	chainBinary = []op.ID{op.Add, op.Mul, op.Sub, op.Maximum}
)

// randomChained is an element-wise call on views that may be the same memory, beside each other, overlapping with inputs, or broadcast.
func randomChained(rng *rand.Rand, elements, rows, columns int) *op.Call {
	n := rows * columns
	slots := elements/n - 1
	place := func() int {
		if rng.IntN(6) == 0 { // elsewhere than the others: overlaps two of them
			return rng.IntN(slots*n-1) + 1
		}
		return rng.IntN(slots) * n
	}
	input := func(out op.View) op.View {
		v := at(place(), rows, columns)
		switch rng.IntN(8) {
		case 0:
			return out // in place
		case 1: // a row for all rows
			v.Strides[0] = 0
		case 2: // a column for all columns
			v.Strides[0], v.Strides[1] = 1, 0
		case 3: // one number
			v.Strides[0], v.Strides[1] = 0, 0
		case 4: // transposed
			v.Strides[0], v.Strides[1] = 1, rows
		}
		return v
	}
	out := at(place(), rows, columns)
	flat := rng.IntN(4) == 0
	if flat {
		out = at(place(), n)
	}
	c := &op.Call{Out: []op.View{out}, F: [8]float64{0.5, 0.25}}
	in := func() op.View {
		if flat {
			return at(place(), n)
		}
		return input(out)
	}
	if rng.IntN(2) == 0 {
		c.Op, c.In = chainUnary[rng.IntN(len(chainUnary))], []op.View{in()}
	} else {
		c.Op, c.In = chainBinary[rng.IntN(len(chainBinary))], []op.View{in(), in()}
	}
	for i := range c.In { // what an operation reads it may write only in the same place
		if c.In[i] != out && touches(c.In[i], out) {
			c.In[i] = out
		}
	}
	return c
}

func touches(a, b op.View) bool {
	n := device.Ptr(4 * max(a.Len(), b.Len()))
	return a.Ptr < b.Ptr+n && b.Ptr < a.Ptr+n
}

func TestChain_LeavesWhatOperationsLeaveOneAfterTheOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		rows, columns := 1+rng.IntN(300), 1+rng.IntN(400)
		elements := (4 + rng.IntN(6)) * rows * columns
		r := newChainRig(t, elements)
		r.behindGate(func() {
			for range 40 {
				r.launch(randomChained(rng, elements, rows, columns))
			}
		})
		r.equal("%d rows of %d", rows, columns)
	}
}

// onStream is a call as a queue has it, at places in memory that nobody touches.
func onStream(id op.ID, out op.View, in ...op.View) *chained {
	return newChained(&op.Call{Op: id, Out: []op.View{out}, In: in}, nil)
}

func TestChain_EndsWhereAnOperationNeedsWhatAnotherPieceWrites(t *testing.T) {
	const n = 1 << 20
	a, b, c, d := at(0, n), at(n, n), at(2*n, n), at(3*n, n)
	strided := func(v op.View, strides ...int) op.View {
		copy(v.Strides[:], strides)
		return v
	}
	cases := map[string]struct {
		first *chained
		next  []device.Joint
		want  int
	}{
		"results that are read":      {onStream(op.Neg, b, a), []device.Joint{onStream(op.Mul, c, b, a), onStream(op.Neg, d, c)}, 2},
		"memory of a freed result":   {onStream(op.Neg, b, a), []device.Joint{onStream(op.Neg, c, b), onStream(op.Neg, b, c)}, 2},
		"in place":                   {onStream(op.Neg, a, a), []device.Joint{onStream(op.Neg, a, a)}, 1},
		"nothing in common":          {onStream(op.Neg, b, a), []device.Joint{onStream(op.Neg, d, c)}, 1},
		"another shape of as many":   {onStream(op.Neg, at(n, n/4, 4), at(0, n/4, 4)), []device.Joint{onStream(op.Neg, c, b)}, 1},
		"a row for all":              {onStream(op.Neg, b, a), []device.Joint{onStream(op.Add, at(2*n, n/4, 4), at(n, n/4, 4), strided(at(3*n, n/4, 4), 0, 1))}, 1},
		"other elements of a result": {onStream(op.Neg, b, a), []device.Joint{onStream(op.Neg, at(3*n, n), at(n+1, n))}, 0},
		"a result in another order": {onStream(op.Neg, at(n, 1024, 1024), at(0, 1024, 1024)),
			[]device.Joint{onStream(op.Neg, at(2*n, 1024, 1024), strided(at(n, 1024, 1024), 1, 1024))}, 0},
		"a number of a result":      {onStream(op.Neg, b, a), []device.Joint{onStream(op.Neg, c, strided(b, 0))}, 0},
		"memory read before":        {onStream(op.Neg, b, a), []device.Joint{onStream(op.Neg, at(1, n), c)}, 0},
		"memory written before":     {onStream(op.Neg, b, a), []device.Joint{onStream(op.Neg, at(n-1, n), c)}, 0},
		"what the one before wrote": {onStream(op.Neg, b, a), []device.Joint{onStream(op.Neg, d, c), onStream(op.Neg, a, at(3*n-1, n))}, 1},
		"fewer elements":            {onStream(op.Neg, b, a), []device.Joint{onStream(op.Neg, at(2*n, n/2), at(n, n/2))}, 0},
		"a result with gaps":        {onStream(op.Neg, strided(b, 2), a), []device.Joint{onStream(op.Neg, a, a)}, 0},
		"followed by one with gaps": {onStream(op.Neg, b, a), []device.Joint{onStream(op.Neg, strided(c, 2), b)}, 0},
		"no elements":               {onStream(op.Neg, at(0, 0), at(0, 0)), []device.Joint{onStream(op.Neg, at(0, 0), at(0, 0))}, 0},
		"pieces larger than a cache": {onStream(op.Add, at(n, 2, n/2), at(0, 2, n/2), strided(at(2*n, 2, n/2), 0, 1)),
			[]device.Joint{onStream(op.Neg, c, b)}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.first.Joins(c.next)) })
	}
}

// recorded keeps the names of operations.
type recorded struct {
	mu    sync.Mutex
	names []string
}

func (r *recorded) Launch(uint8, int) {}
func (r *recorded) Operation(_ uint8, _ int, _ uint64, name string, _ time.Time, _ time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = append(r.names, name)
}
func (r *recorded) Begin(string, string, time.Time) uint64 { return 0 }
func (r *recorded) End(uint64, time.Duration)              {}

func TestChain_IsOneOperationToWhoRecords(t *testing.T) {
	r := newChainRig(t, 4096)
	var told recorded
	require.True(t, timeline.Begin(&told))
	defer timeline.End()
	call := func(id op.ID, out, in op.View) {
		c := &op.Call{Op: id, Stream: r.queue, Out: []op.View{out}, In: []op.View{in}}
		c.Out[0].Ptr += r.of[1]
		c.In[0].Ptr += r.of[1]
		require.NoError(t, Launch(c))
	}
	r.behindGate(func() {
		call(op.Neg, at(1024, 1024), at(0, 1024))
		call(op.Exp, at(2048, 1024), at(1024, 1024))
		call(op.Neg, at(2048, 8), at(1024, 8))
	})
	require.Equal(t, []string{"neg+exp", "neg"}, told.names)
}

func TestChain_FailsAsItsFirstOperationUnderTheNamesOfAll(t *testing.T) {
	r := newChainRig(t, 4096)
	gone := at(0, 1024)
	call := func(id op.ID, out, in op.View) {
		require.NoError(t, Launch(&op.Call{Op: id, Stream: r.queue, Out: []op.View{out}, In: []op.View{in}}))
	}
	there := at(0, 1024)
	there.Ptr += r.of[1]
	gone.Ptr += 1 << 12 // no memory of ours
	var before device.Event
	var err error
	open := r.gate()
	call(op.Neg, there, gone)
	before, err = r.queued.NewEvent()
	require.NoError(t, err)
	require.NoError(t, r.queue.Record(before))
	call(op.Exp, there, there)
	close(open)
	err = r.queue.Synchronize(context.Background())
	require.ErrorIs(t, err, device.ErrLaunch)
	require.ErrorContains(t, err, "neg+exp")
	done, err := before.Done()
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, before.Close())
	call(op.Exp, there, there)
	require.NoError(t, r.queue.Synchronize(context.Background()), "later work runs")
}
