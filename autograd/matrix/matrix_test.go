package matrix_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/autograd/matrix"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

// newGraph is a graph with an allocator of its own, whose cleanup fails the test if anything was left allocated.
func newGraph(t *testing.T) *autograd.Graph {
	t.Helper()
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	g := autograd.NewGraph(dev, autograd.WithAllocator(alloc))
	t.Cleanup(func() {
		g.Release()
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	})
	return g
}

type array struct {
	Shape []int
	Data  []float64
}

// leaf is a variable with a gradient.
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

var functions = map[string]func(in []*autograd.Variable) *autograd.Variable{
	"Inv":      func(in []*autograd.Variable) *autograd.Variable { return matrix.Inv(in[0]) },
	"Solve":    func(in []*autograd.Variable) *autograd.Variable { return matrix.Solve(in[0], in[1]) },
	"Det":      func(in []*autograd.Variable) *autograd.Variable { return matrix.Det(in[0]) },
	"LogDet":   func(in []*autograd.Variable) *autograd.Variable { return matrix.LogDet(in[0]) },
	"SlogDet":  func(in []*autograd.Variable) *autograd.Variable { _, l := matrix.SlogDet(in[0]); return l },
	"Cholesky": func(in []*autograd.Variable) *autograd.Variable { return matrix.Cholesky(in[0]) },
	"Eigvals":  func(in []*autograd.Variable) *autograd.Variable { w, _ := matrix.Eigh(in[0]); return w },
	"Projectors": func(in []*autograd.Variable) *autograd.Variable {
		w, v := matrix.Eigh(in[0])
		return v.Square().Add(w.Unsqueeze(-2))
	},
	"SVDVals": func(in []*autograd.Variable) *autograd.Variable { return matrix.SVDVals(in[0]) },
	"QR":      func(in []*autograd.Variable) *autograd.Variable { return joined(matrix.QR(in[0])) },
	"LU": func(in []*autograd.Variable) *autograd.Variable {
		_, l, u := matrix.LU(in[0])
		return joined(l, u)
	},
	"SVD": func(in []*autograd.Variable) *autograd.Variable {
		u, s, vh := matrix.SVD(in[0])
		if s == nil {
			return nil
		}
		product := u.Mul(s.Unsqueeze(-2)).MatMul(vh.Div(s.Unsqueeze(-1)))
		return autograd.Cat([]*autograd.Variable{flat(product), flat(u.Square()), flat(vh.Square()), s}, -1)
	},
	"Pinv":      func(in []*autograd.Variable) *autograd.Variable { return matrix.Pinv(in[0]) },
	"Lstsq":     func(in []*autograd.Variable) *autograd.Variable { return matrix.Lstsq(in[0], in[1]) },
	"MatrixExp": func(in []*autograd.Variable) *autograd.Variable { return matrix.MatrixExp(in[0]) },
	"MultiDot":  func(in []*autograd.Variable) *autograd.Variable { return matrix.MultiDot(in...) },
	"Trace":     func(in []*autograd.Variable) *autograd.Variable { return matrix.Trace(in[0]) },
}

func init() {
	for _, order := range []string{"fro", "nuc", "2", "-2", "1", "-1", "inf", "-inf"} {
		functions["MatrixNorm "+order] = func(in []*autograd.Variable) *autograd.Variable { return matrix.MatrixNorm(in[0], order) }
	}
	for _, n := range []int{0, 1, 2, 5, -3} {
		functions[fmt.Sprint("MatrixPower ", n)] = func(in []*autograd.Variable) *autograd.Variable { return matrix.MatrixPower(in[0], n) }
	}
	for _, how := range []linalg.Triangular{{}, {Unit: true}, {Right: true}, {Right: true, Unit: true}} {
		for _, upper := range []bool{false, true} {
			name := "SolveTriangular"
			for _, word := range []struct {
				is   bool
				text string
			}{{upper, " upper"}, {how.Right, " right"}, {how.Unit, " unit"}} {
				if word.is {
					name += word.text
				}
			}
			how := how
			how.Upper = upper
			functions[name] = func(in []*autograd.Variable) *autograd.Variable { return matrix.SolveTriangular(in[0], in[1], how) }
		}
	}
	for side, upper := range map[string]bool{"": false, " upper": true} {
		functions["CholeskySolve"+side] = func(in []*autograd.Variable) *autograd.Variable { return matrix.CholeskySolve(in[0], in[1], upper) }
		functions["CholeskyInverse"+side] = func(in []*autograd.Variable) *autograd.Variable { return matrix.CholeskyInverse(in[0], upper) }
	}
}

// joined is both matrices, row by row, in one result.
func joined(x, y *autograd.Variable) *autograd.Variable {
	if x == nil {
		return nil
	}
	return autograd.Cat([]*autograd.Variable{flat(x), flat(y)}, -1)
}

func flat(x *autograd.Variable) *autograd.Variable { return x.Flatten(-2, -1) }

type matrixCase struct {
	Op         string
	Ins, Grads []array
	Out        array
}

func golden(t *testing.T) (cases []matrixCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/matrix.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	return cases
}

// weights are numbers(..., seed=3) of testdata/matrix.py.
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
	largest := 1.0
	for _, w := range want.Data {
		largest = max(largest, math.Abs(w))
	}
	for k, w := range want.Data {
		require.InDelta(t, w, values[k], tolerance*largest, "%s, element %d", what, k)
	}
}

func TestGradients_AreThoseOfPyTorch(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range golden(t) {
		tested[c.Op] = true
		for dt, tolerance := range map[tensor.DType]float64{tensor.Float64: 1e-8, tensor.Float32: 2e-3} {
			g := newGraph(t)
			var in []*autograd.Variable
			for _, a := range c.Ins {
				in = append(in, a.leaf(t, g, dt))
			}
			out := functions[c.Op](in)
			what := c.Op + " " + dt.String()
			requireValues(t, c.Out, out, tolerance, what)
			w := autograd.FromSlice(g, weights(len(c.Out.Data)), c.Out.Shape...).To(dt)
			grads, err := autograd.Grad([]*autograd.Variable{out.Mul(w).Sum(nil, false)}, in)
			require.NoError(t, err, what)
			for i, want := range c.Grads {
				requireValues(t, want, grads[i], tolerance, what+": gradient")
			}
		}
	}
	require.Len(t, tested, len(functions))
}

// Symmetric matrices are made of others, so that elements can be moved one by one.
func TestGradients_AgreeWithFiniteDifferences(t *testing.T) {
	for _, c := range golden(t) {
		var in []*tensor.Tensor
		e, err := tensor.On(host.Default())
		require.NoError(t, err)
		for _, a := range c.Ins {
			x, err := tensor.FromSlice(e, a.Data, a.Shape...)
			require.NoError(t, err)
			defer x.Release()
			in = append(in, x)
		}
		f := functions[c.Op]
		require.NoError(t, gradcheck.Check(host.Default(), func(in []*autograd.Variable) *autograd.Variable {
			if c.Op == "Cholesky" || c.Op == "Eigvals" || c.Op == "Projectors" {
				in = []*autograd.Variable{in[0].Add(in[0].Transpose(-2, -1)).MulScalar(0.5)}
			}
			return f(in)
		}, in), c.Op)
	}
}

func TestErrors_AreTheGraphs(t *testing.T) {
	singular := array{[]int{2, 2}, []float64{1, 2, 2, 4}}
	for _, name := range []string{"Inv", "Solve", "Det", "SlogDet", "Cholesky", "MatrixPower -3"} {
		f := functions[name]
		g := newGraph(t)
		a := singular.leaf(t, g, tensor.Float64)
		err := f([]*autograd.Variable{a.Neg(), a}).Sum(nil, false).Backward()
		var wrong *linalg.MatrixError
		require.ErrorAs(t, err, &wrong, name)
	}
	require.Nil(t, matrix.Inv(nil))
	require.Nil(t, matrix.Trace(nil))
	_, l := matrix.SlogDet(nil)
	require.Nil(t, l)
	g := newGraph(t)
	require.NotNil(t, matrix.Inv(g.Full(1, tensor.Float16, 2, 2)))
	var types *tensor.DTypeError
	require.ErrorAs(t, g.Err(), &types)
}

// Gradients of gradients are refused, and not wrong.
func TestCreateGraph_IsRefused(t *testing.T) {
	g := newGraph(t)
	a := array{[]int{2, 2}, []float64{3, 1, 1, 2}}.leaf(t, g, tensor.Float64)
	_, err := autograd.Grad([]*autograd.Variable{matrix.Inv(a).Sum(nil, false)}, []*autograd.Variable{a}, autograd.CreateGraph())
	require.ErrorIs(t, err, autograd.ErrHigherOrder)
}
