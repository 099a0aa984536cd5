package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

func TestStepInBackward_GivesTheNumbersOfStepsAfterwards(t *testing.T) {
	run := func(early bool) (all [][]float64) {
		e, _ := newExec(t, host.New())
		ps := params{param(t, e, 0, 5, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
		opt := optim.AdamW(ps[:1], optim.LR(0.05)).AddGroup(ps[1:], optim.LR(0.2))
		defer opt.Release()
		stop := func() {}
		if early {
			stop = opt.StepInBackward()
		}
		for range 4 {
			g := autograd.NewGraph(e.Device(), autograd.WithAllocator(e.Allocator()))
			loss := g.Param(ps[0]).Mul(g.Param(ps[1])).Tanh().Sum(nil, false)
			require.NoError(t, loss.Backward())
			g.Release()
			if !early {
				require.NoError(t, opt.Step())
				opt.ZeroGrad()
			}
			require.Nil(t, ps[0].Grad())
		}
		stop()
		g := autograd.NewGraph(e.Device(), autograd.WithAllocator(e.Allocator()))
		defer g.Release()
		require.NoError(t, g.Param(ps[0]).Sum(nil, false).Backward())
		require.NotNil(t, ps[0].Grad(), "it has ended")
		for _, p := range ps {
			v, err := p.Tensor().Float64s()
			require.NoError(t, err)
			all = append(all, v)
		}
		return all
	}
	require.Equal(t, run(false), run(true))
}

func TestStepInBackward_ReportsWrongSettings(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := params{param(t, e, 0, 5, tensor.Float32)}
	opt := optim.SGD(ps, optim.LR(-1))
	defer opt.StepInBackward()()
	g := autograd.NewGraph(e.Device(), autograd.WithAllocator(e.Allocator()))
	defer g.Release()
	require.ErrorIs(t, g.Param(ps[0]).Sum(nil, false).Backward(), optim.ErrInvalid)
}
