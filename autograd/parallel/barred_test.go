package parallel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// A pass of a graph that Run does not know is refused before a hook is called, which may release what good passes have left.
func TestBackward_OfAGraphThatRunDoesNotKnowCallsNoHook(t *testing.T) {
	models := map[string]func() *nn.SequentialModule{
		"plain": func() *nn.SequentialModule { return nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)) },
		"checkpointed": func() *nn.SequentialModule {
			return nn.Sequential(nn.Checkpointed(nn.Linear(16, 8)), nn.Checkpointed(nn.Linear(8, 4)))
		},
		"in part": func() *nn.SequentialModule { return nn.Sequential(nn.Linear(16, 8), nn.Checkpointed(nn.Linear(8, 4))) },
	}
	for name, newModel := range models {
		for stage := range 3 {
			t.Run(fmt.Sprintf("%s, ZeRO %d", name, stage), func(t *testing.T) {
				succeed(t, 2, func(r *rank) error {
					m := newModel()
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}, func(d *parallel.DataParallel) error {
						defer d.ZeroGrad()
						if err := r.backward(d, 16); err != nil {
							return err
						}
						want, calls := gradients(r.t, d), 0
						for _, p := range m.Parameters() {
							defer p.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { calls++; m.ZeroGrad(); return nil, nil }).Remove()
						}
						var e *parallel.Error
						require.ErrorAs(r.t, passOf(r, m.Forward), &e)
						require.NotEmpty(r.t, e.Parameter)
						require.ErrorContains(r.t, e, "was not run by Run or Forward")
						require.Zero(r.t, calls)
						require.Equal(r.t, want, gradients(r.t, d))
						return nil
					})
				})
			})
		}
	}
}

// What has no gradient in the pass does not bar it: a model that only reads, or of which Grad computes what nobody is given.
func TestBackward_OfAGraphThatRunDoesNotKnowMayReadTheModel(t *testing.T) {
	sharedOut(t, []int{0, 1, 2}, func(r *rank, _ int, m *nn.SequentialModule, _ *parallel.DataParallel) error {
		g, x := r.graph(2, 16)
		defer g.Release()
		one, err := tensor.Ones(r.exec, tensor.Float32)
		if err != nil {
			return err
		}
		defer one.Release()
		leaf := g.Input(one, autograd.RequiresGrad())
		read := m.Forward(x).Add(nn.Checkpointed(m).Forward(x)).Detach()
		if err := read.Mul(leaf).Mean(nil, false).Backward(); err != nil {
			return err
		}
		_, err = autograd.Grad([]*autograd.Variable{m.Forward(x.Mul(leaf)).Mean(nil, false)}, []*autograd.Variable{leaf})
		return err
	})
}
