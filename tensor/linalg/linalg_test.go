package linalg_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

// lacking is an allocator that fails once it is asked to.
type lacking struct {
	memory.Allocator
	calls, failAt int
}

// newExec is a device with an allocator of its own, whose cleanup fails the test if anything was left allocated.
func newExec(t *testing.T) tensor.Exec {
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
	return e
}

type array struct {
	Shape []int
	Data  []float64
}

func (a array) tensor(t *testing.T, e tensor.Exec, dt tensor.DType) *tensor.Tensor {
	t.Helper()
	wide, err := tensor.FromSlice(e, a.Data, a.Shape...)
	require.NoError(t, err)
	defer wide.Release()
	x, err := wide.To(dt)
	require.NoError(t, err)
	t.Cleanup(x.Release)
	return x
}

func one(x *tensor.Tensor, err error) ([]*tensor.Tensor, error) { return []*tensor.Tensor{x}, err }

func two(x, y *tensor.Tensor, err error) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{x, y}, err
}

func three(x, y, z *tensor.Tensor, err error) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{x, y, z}, err
}

var functions = map[string]func(in []*tensor.Tensor, arg string) ([]*tensor.Tensor, error){
	"Inv":      func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.Inv(in[0])) },
	"Solve":    func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.Solve(in[0], in[1])) },
	"Det":      func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.Det(in[0])) },
	"SlogDet":  func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return two(linalg.SlogDet(in[0])) },
	"Cholesky": func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.Cholesky(in[0])) },
	"QR":       func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return two(linalg.QR(in[0])) },
	"SVDVals":  func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.SVDVals(in[0])) },
	"Pinv":     func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.Pinv(in[0])) },
	"Lstsq":    func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.Lstsq(in[0], in[1])) },
	"Trace":    func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.Trace(in[0])) },
	"MatrixNorm": func(in []*tensor.Tensor, order string) ([]*tensor.Tensor, error) {
		return one(linalg.MatrixNorm(in[0], order))
	},
	"MatrixExp":  func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.MatrixExp(in[0])) },
	"MatrixRank": func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return one(linalg.MatrixRank(in[0])) },
	"LU":         func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) { return three(linalg.LU(in[0])) },
	"SolveTriangular": func(in []*tensor.Tensor, how string) ([]*tensor.Tensor, error) {
		has := func(what string) bool { return strings.Contains(how, what) }
		return one(linalg.SolveTriangular(in[0], in[1], linalg.Triangular{Upper: has("upper"), Right: has("right"), Unit: has("unit")}))
	},
	"CholeskySolve": func(in []*tensor.Tensor, how string) ([]*tensor.Tensor, error) {
		return one(linalg.CholeskySolve(in[0], in[1], how == "upper"))
	},
	"CholeskyInverse": func(in []*tensor.Tensor, how string) ([]*tensor.Tensor, error) {
		return one(linalg.CholeskyInverse(in[0], how == "upper"))
	},
	"Eigvals": func(in []*tensor.Tensor, _ string) ([]*tensor.Tensor, error) {
		values, vectors, err := linalg.Eigh(in[0])
		vectors.Release()
		return one(values, err)
	},
}

type linalgCase struct {
	Op, Arg   string
	Ins, Outs []array
}

func golden(t *testing.T) (cases []linalgCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/linalg.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	return cases
}

func TestFunctions_GiveTheNumbersOfPyTorch(t *testing.T) {
	tested := map[string]bool{}
	for n, c := range golden(t) {
		tested[c.Op] = true
		for dt, tolerance := range map[tensor.DType]float64{tensor.Float64: 1e-9, tensor.Float32: 2e-4} {
			e := newExec(t)
			var ins []*tensor.Tensor
			for _, a := range c.Ins {
				ins = append(ins, a.tensor(t, e, dt))
			}
			outs, err := functions[c.Op](ins, c.Arg)
			require.NoError(t, err, "case %d, %s", n, c.Op)
			for i, want := range c.Outs {
				if c.Op != "MatrixRank" {
					require.Equal(t, dt, outs[i].DType())
				}
				requireValues(t, want, outs[i], tolerance, "case %d, %s %s, %v", n, c.Op, c.Arg, dt)
				outs[i].Release()
			}
		}
	}
	require.Len(t, tested, len(functions))
}

func requireValues(t *testing.T, want array, got *tensor.Tensor, tolerance float64, what string, args ...any) {
	t.Helper()
	require.Equal(t, want.Shape, append([]int{}, got.Shape()...))
	values, err := got.Float64s()
	require.NoError(t, err)
	largest := 1.0
	for _, w := range want.Data {
		largest = max(largest, math.Abs(w))
	}
	for k, w := range want.Data {
		require.InDelta(t, w, values[k], tolerance*largest, append([]any{what}, args...)...)
	}
}

// times is the product of matrices, the second of which may be transposed.
func times(t *testing.T, a, b *tensor.Tensor, transpose bool) *tensor.Tensor {
	t.Helper()
	if transpose {
		x, err := b.Transpose(-2, -1)
		require.NoError(t, err)
		defer x.Release()
		b = x
	}
	p, err := a.MatMul(b)
	require.NoError(t, err)
	t.Cleanup(p.Release)
	return p
}

// The signs of vectors are arbitrary, so that what they make together is compared.
func TestSVD_AndEigh_PutTheMatrixTogetherAgain(t *testing.T) {
	for _, c := range golden(t) {
		e := newExec(t)
		a := c.Ins[0].tensor(t, e, tensor.Float64)
		if c.Op == "SVDVals" {
			u, s, vh, err := linalg.SVD(a)
			require.NoError(t, err)
			requireValues(t, c.Outs[0], s, 1e-12, "singular values")
			diag, err := s.DiagEmbed(0)
			require.NoError(t, err)
			requireValues(t, c.Ins[0], times(t, times(t, u, diag, false), vh, false), 1e-12, "u*s*vh")
			requireIdentity(t, times(t, vh, vh, true))
			for _, x := range []*tensor.Tensor{u, s, vh, diag} {
				x.Release()
			}
		}
		if c.Op == "Eigvals" {
			w, v, err := linalg.Eigh(a)
			require.NoError(t, err)
			diag, err := w.DiagEmbed(0)
			require.NoError(t, err)
			requireValues(t, c.Ins[0], times(t, times(t, v, diag, false), v, true), 1e-12, "v*w*vT")
			requireIdentity(t, times(t, v, v, true))
			for _, x := range []*tensor.Tensor{w, v, diag} {
				x.Release()
			}
		}
	}
}

func requireIdentity(t *testing.T, m *tensor.Tensor) {
	t.Helper()
	n := m.Dim(-1)
	values, err := m.Float64s()
	require.NoError(t, err)
	for k, v := range values {
		want := 0.0
		if k/n%n == k%n {
			want = 1
		}
		require.InDelta(t, want, v, 1e-12)
	}
}

func TestFunctions_RefuseMatricesWithoutAResult(t *testing.T) {
	nan := math.NaN()
	good, singular := []float64{2, 0, 0, 2}, []float64{1, 2, 2, 4}
	for name, c := range map[string]struct {
		second []float64
		err    error
		run    func(a *tensor.Tensor) error
	}{
		"Inv":      {singular, linalg.ErrSingular, func(a *tensor.Tensor) error { _, err := linalg.Inv(a); return err }},
		"Solve":    {singular, linalg.ErrSingular, func(a *tensor.Tensor) error { _, err := linalg.Solve(a, a); return err }},
		"Cholesky": {[]float64{-1, 0, 0, 1}, linalg.ErrNotPositiveDefinite, func(a *tensor.Tensor) error { _, err := linalg.Cholesky(a); return err }},
		"NaN":      {[]float64{nan, 0, 0, 1}, linalg.ErrNotPositiveDefinite, func(a *tensor.Tensor) error { _, err := linalg.Cholesky(a); return err }},
		"Eigh":     {[]float64{1, 0, nan, 1}, linalg.ErrNotFinite, func(a *tensor.Tensor) error { _, _, err := linalg.Eigh(a); return err }},
		"SVD":      {[]float64{1, math.Inf(1), 0, 1}, linalg.ErrNotFinite, func(a *tensor.Tensor) error { _, _, _, err := linalg.SVD(a); return err }},
		"SVDVals":  {[]float64{1, nan, 0, 1}, linalg.ErrNotFinite, func(a *tensor.Tensor) error { _, err := linalg.SVDVals(a); return err }},
		"Pinv":     {[]float64{1, nan, 0, 1}, linalg.ErrNotFinite, func(a *tensor.Tensor) error { _, err := linalg.Pinv(a); return err }},
		"Lstsq":    {[]float64{1, nan, 0, 1}, linalg.ErrNotFinite, func(a *tensor.Tensor) error { _, err := linalg.Lstsq(a, a); return err }},
	} {
		e := newExec(t)
		err := c.run(array{[]int{2, 2, 2}, append(append([]float64{}, good...), c.second...)}.tensor(t, e, tensor.Float32))
		var wrong *linalg.MatrixError
		require.ErrorAs(t, err, &wrong, name)
		require.ErrorIs(t, err, c.err, name)
		require.Equal(t, 1, wrong.Batch, "the second of the batch")
	}
}

// NaN goes through where it has a place in the result.
func TestFunctions_OfNaNDoNotPanic(t *testing.T) {
	e := newExec(t)
	a := array{[]int{2, 2}, []float64{math.NaN(), 1, math.Inf(1), 1}}.tensor(t, e, tensor.Float64)
	for name, f := range functions {
		outs, err := f([]*tensor.Tensor{a, a}, "fro")
		for _, x := range outs {
			x.Release()
		}
		t.Log(name, err)
	}
}

func TestFunctions_RefuseShapesAndTypes(t *testing.T) {
	e := newExec(t)
	whole := array{[]int{2, 2}, []float64{1, 2, 3, 4}}.tensor(t, e, tensor.Int64)
	vector := array{[]int{4}, []float64{1, 2, 3, 4}}.tensor(t, e, tensor.Float64)
	gone, err := vector.Clone()
	require.NoError(t, err)
	gone.Release()
	for name, f := range functions {
		for _, in := range []*tensor.Tensor{whole, vector, gone, nil} {
			if name == "Trace" && in == whole {
				continue
			}
			_, err := f([]*tensor.Tensor{in, in}, "fro")
			require.Error(t, err, name)
		}
	}
	wide := array{[]int{1, 2, 3}, []float64{1, 2, 3, 4, 5, 6}}.tensor(t, e, tensor.Float64)
	var shape *tensor.ShapeError
	for _, name := range []string{"Inv", "Det", "SlogDet", "Cholesky", "Eigvals", "Solve", "SolveTriangular", "CholeskySolve", "CholeskyInverse", "MatrixExp"} {
		_, err := functions[name]([]*tensor.Tensor{wide, wide}, "")
		require.ErrorAs(t, err, &shape, name)
	}
	var value *tensor.ValueError
	_, err = linalg.MatrixNorm(wide, "3")
	require.ErrorAs(t, err, &value)
}

func TestDet_OfWholeNumbersIsExact(t *testing.T) {
	e := newExec(t)
	a := array{[]int{3, 2, 2}, []float64{2, 100, 1, 2, 6, 0, 0, 7, 10, 0, 0, 10}}.tensor(t, e, tensor.Float64)
	d, err := linalg.Det(a)
	require.NoError(t, err)
	requireValues(t, array{[]int{3}, []float64{-96, 42, 100}}, d, 0, "determinants")
	d.Release()
	a.Release()
}

func TestFunctions_OfNothing(t *testing.T) {
	e := newExec(t)
	empty, none := array{[]int{2, 0, 0}, nil}.tensor(t, e, tensor.Float64), array{[]int{0, 2, 2}, nil}.tensor(t, e, tensor.Float64)
	d, err := linalg.Det(empty)
	require.NoError(t, err)
	requireValues(t, array{[]int{2}, []float64{1, 1}}, d, 0, "as in PyTorch")
	d.Release()
	for name, f := range functions {
		for _, in := range []*tensor.Tensor{empty, none} {
			outs, err := f([]*tensor.Tensor{in, in}, "fro")
			require.NoError(t, err, name)
			for _, x := range outs {
				x.Release()
			}
		}
	}
}

// A result may have elements where the matrices have none, or more of them: the device must have room for them before they are made on the host, and
// that no matrix has elements is seen without going through all.
func TestFunctions_RefuseResultsBeyondTheDevicesMemory(t *testing.T) {
	const many = 1 << 40
	dev := host.New(host.Capacity(64 << 20))
	e, err := tensor.On(dev)
	require.NoError(t, err)
	defer func() { require.NoError(t, memory.Drop(dev)) }()
	empty := func(shape ...int) *tensor.Tensor {
		x, err := tensor.Empty(e, tensor.Float64, shape...)
		require.NoError(t, err)
		t.Cleanup(x.Release)
		return x
	}
	stack, tall := empty(many, 0, 0), empty(many, 0)
	_, _, _, err = linalg.SVD(stack)
	require.NoError(t, err)
	for name, f := range map[string]func() error{
		"Det":        func() error { _, err := linalg.Det(stack); return err },
		"SlogDet":    func() error { _, _, err := linalg.SlogDet(stack); return err },
		"MatrixRank": func() error { _, err := linalg.MatrixRank(stack); return err },
		"MatrixNorm": func() error { _, err := linalg.MatrixNorm(stack, "fro"); return err },
		"LU":         func() error { _, _, _, err := linalg.LU(tall); return err },
		"Lstsq":      func() error { _, err := linalg.Lstsq(empty(0, 1<<20), empty(0, 1<<20)); return err },
	} {
		require.ErrorContains(t, f(), name)
	}
}

func (a *lacking) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if a.calls++; a.calls == a.failAt {
		return memory.Block{}, &memory.OOMError{Requested: bytes}
	}
	return a.Allocator.Alloc(bytes, s)
}

func TestFunctions_KeepNoMemoryWhenItIsMissing(t *testing.T) {
	dev := host.New()
	inner, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	a := &lacking{Allocator: inner}
	e, err := tensor.On(dev, tensor.WithAllocator(a))
	require.NoError(t, err)
	m, err := tensor.FromSlice(e, []float32{2, 1, 1, 3}, 2, 2)
	require.NoError(t, err)
	held := inner.Stats().AllocatedBytes.All.Current
	for name, f := range functions {
		failed := 0
		for nth := 1; ; nth++ {
			a.calls, a.failAt = 0, nth
			outs, err := f([]*tensor.Tensor{m, m}, "fro")
			a.failAt = 0
			if err == nil {
				for _, x := range outs {
					x.Release()
				}
				require.Equal(t, held, inner.Stats().AllocatedBytes.All.Current, name)
				break
			}
			require.ErrorIs(t, err, memory.ErrOutOfMemory)
			require.Equal(t, held, inner.Stats().AllocatedBytes.All.Current, name)
			failed++
		}
		require.Positive(t, failed, name)
	}
	m.Release()
	require.NoError(t, inner.Close())
	require.NoError(t, dev.Close())
}
