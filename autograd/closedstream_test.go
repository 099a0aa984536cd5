package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// located wants an error that names an operation and a line of this package's tests.
func located(t *testing.T, err error, op string) {
	t.Helper()
	var failed *autograd.OpError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, op, failed.Op)
	require.Contains(t, err.Error(), "closedstream_test.go")
}

// A stream that the program has closed is the error of whatever comes next, with its line.
func TestClosedStream_IsAnErrorWithOperationAndLine(t *testing.T) {
	for name, use := range map[string]struct {
		op  string
		run func(g *autograd.Graph, x, loss *autograd.Variable, t *tensor.Tensor) error
	}{
		"Backward": {"Backward", func(_ *autograd.Graph, _, loss *autograd.Variable, _ *tensor.Tensor) error { return loss.Backward() }},
		"Grad": {"Grad", func(_ *autograd.Graph, x, loss *autograd.Variable, _ *tensor.Tensor) error {
			_, err := autograd.Grad([]*autograd.Variable{loss}, []*autograd.Variable{x})
			return err
		}},
		"operation": {"exp", func(g *autograd.Graph, x, _ *autograd.Variable, _ *tensor.Tensor) error {
			x.Exp()
			return g.Err()
		}},
		"Input": {"Input", func(g *autograd.Graph, _, _ *autograd.Variable, t *tensor.Tensor) error {
			g.Input(t)
			return g.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dev := host.New()
			alloc := memory.NewDirect(dev)
			s := must2(dev.NewStream())
			e := must2(tensor.On(dev, tensor.WithAllocator(alloc)))
			foreign := must(tensor.Ones(e, tensor.Float32, 2))
			g := autograd.NewGraph(dev, autograd.WithStream(s), autograd.WithAllocator(alloc))
			x := g.Input(foreign, autograd.RequiresGrad())
			loss := x.Exp().Sum(nil, false)
			require.NoError(t, g.Err())
			require.NoError(t, s.Close())
			err := use.run(g, x, loss, foreign)
			require.ErrorIs(t, err, device.ErrClosed)
			located(t, err, use.op)
			g.Release()
			foreign.Release()
			require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
			require.NoError(t, alloc.Close())
			require.NoError(t, dev.Close())
		})
	}
}

func TestNewGraph_ThatCannotBeMade_NamesItselfAndTheLine(t *testing.T) {
	a, b := host.New(), host.New()
	located(t, autograd.NewGraph(nil).Err(), "NewGraph")
	located(t, autograd.NewGraph(a, autograd.WithStream(b.DefaultStream())).Err(), "NewGraph")
	require.NoError(t, memory.Drop(a))
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}
