package sparse_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/autograd/sparse"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

type array struct {
	Shape []int
	Data  []float64
}

type sparseCase struct {
	Ins, Grads []array
	Out        array
}

// golden is testdata/sparse.json.
type golden struct {
	Crow, Col, Row []int64
	Rows, Cols     int
}

func read(t *testing.T) (g golden, cases map[string]sparseCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/sparse.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &g))
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &all))
	cases = map[string]sparseCase{}
	for name, text := range all {
		var c sparseCase
		if functions[name] != nil {
			require.NoError(t, json.Unmarshal(text, &c))
			cases[name] = c
		}
	}
	require.Len(t, cases, len(functions))
	return g, cases
}

var functions = map[string]func(p *sparse.Pattern, in []*autograd.Variable) *autograd.Variable{
	"product":    func(p *sparse.Pattern, in []*autograd.Variable) *autograd.Variable { return p.MatMul(in[0], in[1]) },
	"vector":     func(p *sparse.Pattern, in []*autograd.Variable) *autograd.Variable { return p.MatMul(in[0], in[1]) },
	"heads":      func(p *sparse.Pattern, in []*autograd.Variable) *autograd.Variable { return p.MatMul(in[0], in[1]) },
	"transposed": func(p *sparse.Pattern, in []*autograd.Variable) *autograd.Variable { return p.MatMulT(in[0], in[1]) },
	"softmax":    func(p *sparse.Pattern, in []*autograd.Variable) *autograd.Variable { return p.Softmax(in[0]) },
	"dense":      func(p *sparse.Pattern, in []*autograd.Variable) *autograd.Variable { return p.Dense(in[0]) },
}

// newExec is a device with an allocator of its own, whose cleanup fails the test if anything was left allocated.
func newExec(t *testing.T) (tensor.Exec, *memory.Caching) {
	t.Helper()
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	})
	return e, alloc
}

func (a array) leaf(t *testing.T, g *autograd.Graph, dt tensor.DType) *autograd.Variable {
	t.Helper()
	wide, err := tensor.FromSlice(g.Exec(), a.Data, a.Shape...)
	require.NoError(t, err)
	defer wide.Release()
	x, err := wide.To(dt)
	require.NoError(t, err)
	defer x.Release()
	return g.Input(x, autograd.RequiresGrad())
}

func weights(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		k := float64(i)
		w[i] = math.Mod(k*k*0.37+k*0.173+3*0.211+0.05, 1)*3 - 1.5
	}
	return w
}

func requireValues(t *testing.T, want array, got *autograd.Variable, tolerance float64, what string) {
	t.Helper()
	values, err := got.Float64s()
	require.NoError(t, err, what)
	require.Equal(t, want.Shape, append([]int{}, got.Shape()...), what)
	for k, w := range want.Data {
		require.InDelta(t, w, values[k], tolerance*max(1, math.Abs(w)), "%s, element %d", what, k)
	}
}

func TestProducts_GiveTheNumbersOfPyTorch(t *testing.T) {
	pattern, cases := read(t)
	for name, c := range cases {
		for dt, tolerance := range map[tensor.DType]float64{tensor.Float64: 1e-12, tensor.Float32: 1e-5} {
			e, alloc := newExec(t)
			p, err := sparse.CSR(e, pattern.Rows, pattern.Cols, pattern.Crow, pattern.Col)
			require.NoError(t, err)
			same, err := sparse.COO(e, pattern.Rows, pattern.Cols, pattern.Row, pattern.Col)
			require.NoError(t, err)
			for _, p := range []*sparse.Pattern{p, same} {
				g := autograd.NewGraph(e.Device(), autograd.WithAllocator(alloc))
				var in []*autograd.Variable
				for _, a := range c.Ins {
					in = append(in, a.leaf(t, g, dt))
				}
				out := functions[name](p, in)
				requireValues(t, c.Out, out, tolerance, name)
				w := autograd.FromSlice(g, weights(len(c.Out.Data)), c.Out.Shape...).To(dt)
				grads, err := autograd.Grad([]*autograd.Variable{out.Mul(w).Sum(nil, false)}, in)
				require.NoError(t, err, name)
				for i, want := range c.Grads {
					requireValues(t, want, grads[i], tolerance, name+": gradient")
				}
				g.Release()
				p.Release()
			}
		}
	}
}

func TestProducts_AreDifferentiatedTwice(t *testing.T) {
	pattern, cases := read(t)
	e, err := tensor.On(host.Default())
	require.NoError(t, err)
	p, err := sparse.CSR(e, pattern.Rows, pattern.Cols, pattern.Crow, pattern.Col)
	require.NoError(t, err)
	defer p.Release()
	for name, c := range cases {
		var in []*tensor.Tensor
		for _, a := range c.Ins {
			x, err := tensor.FromSlice(e, a.Data, a.Shape...)
			require.NoError(t, err)
			defer x.Release()
			in = append(in, x)
		}
		f := func(in []*autograd.Variable) *autograd.Variable { return functions[name](p, in).Square() }
		require.NoError(t, gradcheck.Check(host.Default(), f, in), name)
		require.NoError(t, gradcheck.CheckGradGrad(host.Default(), f, in), name)
	}
}

// The sums of a row of ones are the degrees; places that are there twice count twice; rows without elements are 0.
func TestPattern_OfEdges(t *testing.T) {
	e, alloc := newExec(t)
	p, err := sparse.COO(e, 3, 2, []int64{2, 0, 2}, []int64{1, 0, 1})
	require.NoError(t, err)
	defer p.Release()
	g := autograd.NewGraph(e.Device(), autograd.WithAllocator(alloc))
	defer g.Release()
	require.Equal(t, 3, p.Len())
	requireValues(t, array{[]int{3}, []float64{1, 0, 2}}, p.SumRows(g.Ones(tensor.Float64, 3)), 0, "degrees")
	x := autograd.FromSlice(g, []float64{10, 20}, 2)
	requireValues(t, array{[]int{3}, []float64{10, 0, 40}}, p.MatMul(nil, x), 0, "ones")
	requireValues(t, array{[]int{3}, []float64{20, 10, 20}}, p.OfCols(x), 0, "sources")
	requireValues(t, array{[]int{3}, []float64{3, 1, 3}}, p.OfRows(autograd.FromSlice(g, []float64{1, 2, 3}, 3)), 0, "targets")
	requireValues(t, array{[]int{3, 2}, []float64{1, 0, 0, 0, 0, 2}}, p.Dense(g.Ones(tensor.Float64, 3)), 0, "dense")
	none, err := sparse.CSR(e, 2, 2, []int64{0, 0, 0}, nil)
	require.NoError(t, err)
	defer none.Release()
	requireValues(t, array{[]int{2}, []float64{0, 0}}, none.MatMul(nil, x), 0, "no elements")
	require.Equal(t, tensor.Shape{0}, none.Softmax(g.Ones(tensor.Float64, 0)).Shape())
	require.NoError(t, g.Err())
}

func TestPattern_RefusesWhatIsNoMatrix(t *testing.T) {
	e, alloc := newExec(t)
	var value *tensor.ValueError
	for name, f := range map[string]func() (*sparse.Pattern, error){
		"limits":     func() (*sparse.Pattern, error) { return sparse.CSR(e, 2, 2, []int64{0, 1}, []int64{0}) },
		"start":      func() (*sparse.Pattern, error) { return sparse.CSR(e, 1, 2, []int64{1, 1}, []int64{0}) },
		"end":        func() (*sparse.Pattern, error) { return sparse.CSR(e, 1, 2, []int64{0, 2}, []int64{0}) },
		"falling":    func() (*sparse.Pattern, error) { return sparse.CSR(e, 2, 2, []int64{0, 2, 1}, []int64{0}) },
		"column":     func() (*sparse.Pattern, error) { return sparse.CSR(e, 1, 2, []int64{0, 1}, []int64{2}) },
		"negative":   func() (*sparse.Pattern, error) { return sparse.COO(e, 1, 2, []int64{-1}, []int64{0}) },
		"lengths":    func() (*sparse.Pattern, error) { return sparse.COO(e, 1, 2, []int64{0}, nil) },
		"size":       func() (*sparse.Pattern, error) { return sparse.COO(e, -1, 2, nil, nil) },
		"no rows":    func() (*sparse.Pattern, error) { return sparse.CSR(e, -1, 2, nil, nil) },
		"many rows":  func() (*sparse.Pattern, error) { return sparse.CSR(e, math.MaxInt, 2, nil, nil) },
		"no columns": func() (*sparse.Pattern, error) { return sparse.COO(e, 1, -2, nil, nil) },
	} {
		p, err := f()
		require.ErrorAs(t, err, &value, name)
		require.Nil(t, p)
	}
	p, err := sparse.COO(e, 3, 2, []int64{2, 0}, []int64{1, 0})
	require.NoError(t, err)
	defer p.Release()
	var shape *tensor.ShapeError
	for name, f := range map[string]func(g *autograd.Graph) *autograd.Variable{
		"rows of x":  func(g *autograd.Graph) *autograd.Variable { return p.MatMul(nil, g.Ones(tensor.Float32, 3)) },
		"rows of xT": func(g *autograd.Graph) *autograd.Variable { return p.MatMulT(nil, g.Ones(tensor.Float32, 2)) },
		"values": func(g *autograd.Graph) *autograd.Variable {
			return p.MatMul(g.Ones(tensor.Float32, 3), g.Ones(tensor.Float32, 2))
		},
		"more values": func(g *autograd.Graph) *autograd.Variable {
			return p.MatMul(g.Ones(tensor.Float32, 2, 1), g.Ones(tensor.Float32, 2))
		},
		"a number": func(g *autograd.Graph) *autograd.Variable { return p.Softmax(g.Ones(tensor.Float32)) },
		"sums":     func(g *autograd.Graph) *autograd.Variable { return p.SumRows(g.Ones(tensor.Float32, 1)) },
	} {
		g := autograd.NewGraph(e.Device(), autograd.WithAllocator(alloc))
		require.NotNil(t, f(g))
		require.ErrorAs(t, g.Err(), &shape, name)
		g.Release()
	}
	for _, p := range []*sparse.Pattern{nil, new(sparse.Pattern)} {
		g := autograd.NewGraph(e.Device(), autograd.WithAllocator(alloc))
		p.MatMul(nil, g.Ones(tensor.Float32, 2))
		require.ErrorAs(t, g.Err(), &value)
		g.Release()
		p.Release()
		require.Zero(t, p.Len())
	}
	require.Nil(t, p.MatMul(nil, nil))
	require.Nil(t, p.Softmax(nil))
	g := autograd.NewGraph(e.Device(), autograd.WithAllocator(alloc))
	defer g.Release()
	p.MatMul(g.Ones(tensor.Float32, 2), nil)
	require.ErrorIs(t, g.Err(), autograd.ErrNilVariable)
}

// lacking is an allocator that fails once it is asked to.
type lacking struct {
	memory.Allocator
	calls, failAt int
}

func (a *lacking) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if a.calls++; a.calls == a.failAt {
		return memory.Block{}, &memory.OOMError{Requested: bytes}
	}
	return a.Allocator.Alloc(bytes, s)
}

func TestCSR_KeepsNoMemoryWhenItIsMissing(t *testing.T) {
	dev := host.New()
	inner, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	a := &lacking{Allocator: inner}
	e, err := tensor.On(dev, tensor.WithAllocator(a))
	require.NoError(t, err)
	for nth := 1; nth <= 2; nth++ {
		a.calls, a.failAt = 0, nth
		_, err := sparse.COO(e, 1, 1, []int64{0}, []int64{0})
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
		require.Zero(t, inner.Stats().AllocatedBytes.All.Current)
	}
	require.NoError(t, inner.Close())
	require.NoError(t, dev.Close())
}

// A sum of what could not be computed must not ask for its shape, of which there is none.
func TestProducts_FailAtEveryAllocationAndKeepNothing(t *testing.T) {
	pattern, cases := read(t)
	e, alloc := newExec(t)
	p, err := sparse.CSR(e, pattern.Rows, pattern.Cols, pattern.Crow, pattern.Col)
	require.NoError(t, err)
	defer p.Release()
	base := alloc.Stats().AllocatedBytes.All.Current
	for name, c := range cases {
		failed := true
		for nth := 1; failed; nth++ {
			a := &lacking{Allocator: alloc}
			g := autograd.NewGraph(e.Device(), autograd.WithAllocator(a))
			var in []*autograd.Variable
			for _, x := range c.Ins {
				in = append(in, x.leaf(t, g, tensor.Float32))
			}
			a.calls, a.failAt = 0, nth
			functions[name](p, in)
			if failed = a.calls >= nth; failed {
				require.ErrorIs(t, g.Err(), memory.ErrOutOfMemory, "%s, allocation %d", name, nth)
			}
			g.Release()
			require.Equal(t, base, alloc.Stats().AllocatedBytes.All.Current, "%s, allocation %d", name, nth)
		}
	}
}
