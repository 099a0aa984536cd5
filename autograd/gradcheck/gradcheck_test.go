package gradcheck_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func input(t *testing.T, dev *host.Device, values ...float64) []*tensor.Tensor {
	t.Helper()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	x, err := tensor.FromSlice(e, values)
	require.NoError(t, err)
	t.Cleanup(func() {
		x.Release()
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	})
	return []*tensor.Tensor{x}
}

func TestCheck_AcceptsARightGradient(t *testing.T) {
	dev := host.New()
	in := input(t, dev, 1, -2, 3)
	require.NoError(t, gradcheck.Check(dev, func(v []*autograd.Variable) *autograd.Variable { return v[0].PowScalar(3) }, in))
	alloc, err := memory.For(dev)
	require.NoError(t, err)
	require.EqualValues(t, in[0].StorageBytes(), alloc.Stats().AllocatedBytes.All.Current, "it leaves nothing behind")
}

func TestCheck_FindsAWrongGradient(t *testing.T) {
	dev := host.New()
	in := input(t, dev, 1, 0, 3)
	// x*detach(x) has the value of x², and only half of its gradient: at 0 they agree.
	half := func(v []*autograd.Variable) *autograd.Variable { return v[0].Mul(v[0].Detach()) }
	var wrong *gradcheck.Error
	require.ErrorAs(t, gradcheck.Check(dev, half, in), &wrong)
	require.Equal(t, 0, wrong.Element)
	require.InDelta(t, wrong.Numeric/2, wrong.Gradient, 1e-6)
	require.NoError(t, gradcheck.Check(dev, half, in, gradcheck.Tolerance(0, 0.6)))
}

func TestCheck_FindsAMissingGradient(t *testing.T) {
	dev := host.New()
	in := input(t, dev, 1)
	part := func(v []*autograd.Variable) *autograd.Variable {
		return v[0].MulScalar(0).Add(v[0].Detach())
	}
	var wrong *gradcheck.Error
	require.ErrorAs(t, gradcheck.Check(dev, part, in), &wrong)
	require.Zero(t, wrong.Gradient)
}

func TestCheck_ReturnsTheErrorsOfTheFunction(t *testing.T) {
	dev := host.New()
	in := input(t, dev, 1, 2)
	var shape *tensor.ShapeError
	require.ErrorAs(t, gradcheck.Check(dev, func(v []*autograd.Variable) *autograd.Variable { return v[0].Reshape(3) }, in), &shape)
}

func TestCheck_RefusesAFunctionWhoseResultChangesItsSize(t *testing.T) {
	dev := host.New()
	n := 1
	err := gradcheck.Check(dev, func(v []*autograd.Variable) *autograd.Variable {
		n++
		return v[0].Narrow(0, 0, n)
	}, input(t, dev, 1, 2, 3, 4, 5))
	var bad *tensor.ValueError
	require.ErrorAs(t, err, &bad)
	require.ErrorContains(t, err, "2 results at one time and 3 at another")
}

func TestCheck_WithWrongArguments_DoesNotCallTheFunction(t *testing.T) {
	dev := host.New()
	in := input(t, dev, 1)
	f := func(v []*autograd.Variable) *autograd.Variable {
		t.Error("called")
		return v[0].Exp()
	}
	closed := host.New()
	require.NoError(t, closed.Close())
	released := input(t, host.New(), 1)
	released[0].Release()
	for name, call := range map[string]func() error{
		"no device":        func() error { return gradcheck.Check(nil, f, in) },
		"nil device":       func() error { return gradcheck.Check((*host.Device)(nil), f, in) },
		"other device":     func() error { return gradcheck.Check(closed, f, in) },
		"nil input":        func() error { return gradcheck.Check(dev, f, []*tensor.Tensor{nil}) },
		"released input":   func() error { return gradcheck.Check(dev, f, released) },
		"no inputs":        func() error { return gradcheck.Check(dev, f, nil) },
		"eps of 0":         func() error { return gradcheck.Check(dev, f, in, gradcheck.Eps(0)) },
		"eps of NaN":       func() error { return gradcheck.Check(dev, f, in, gradcheck.Eps(math.NaN())) },
		"negative bounds":  func() error { return gradcheck.Check(dev, f, in, gradcheck.Tolerance(-1, 0)) },
		"options of graph": func() error { return gradcheck.Check(dev, f, in, gradcheck.Graph(nil)) },
		"wrong stream": func() error {
			return gradcheck.Check(dev, f, in, gradcheck.Graph(func() []autograd.Option {
				return []autograd.Option{autograd.WithStream(closed.DefaultStream())}
			}))
		},
	} {
		require.Error(t, call(), name)
	}
	require.Error(t, gradcheck.Check(dev, nil, in))
	require.ErrorIs(t, gradcheck.Check(dev, func([]*autograd.Variable) *autograd.Variable { return nil }, in), autograd.ErrNilVariable)
}
