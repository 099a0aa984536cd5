package parallel_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// extended is a model that may get another layer.
type extended struct {
	nn.Base
	In   *nn.LinearLayer
	More nn.Layer
}

func (m *extended) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable {
		x = m.In.Forward(x)
		if m.More != nil {
			x = m.More.Forward(x)
		}
		return x
	})
}

// Parameters that join after Data, in the model or in Run, would be trained by each rank alone. That is the error of the pass that has a gradient for them; what is not trained there, or not of the model, is the program's.
func TestData_ParametersThatJoinLaterAreTold(t *testing.T) {
	type joining struct {
		r     *rank
		m     *extended
		d     *parallel.DataParallel
		extra *nn.LinearLayer
	}
	type pass = func(j *joining, x *autograd.Variable) *autograd.Variable
	in := func(f pass) pass {
		return func(j *joining, x *autograd.Variable) *autograd.Variable {
			return j.d.Run(x.Graph(), func() *autograd.Variable { return f(j, x) })
		}
	}
	for name, c := range map[string]struct {
		pass pass
		name string // of the parameter that is told; empty for none
	}{
		"a layer of the model": {func(j *joining, x *autograd.Variable) *autograd.Variable { j.m.More = j.extra; return j.d.Forward(x) }, "more"},
		"checkpointed in the model": {func(j *joining, x *autograd.Variable) *autograd.Variable {
			j.m.More = nn.Checkpointed(j.extra)
			return j.d.Forward(x)
		}, "more"},
		"of the model, outside of Run": {func(j *joining, x *autograd.Variable) *autograd.Variable {
			y := j.d.Forward(x)
			j.m.More = j.extra
			return j.m.More.Forward(y)
		}, "more"},
		"a layer in Run": {in(func(j *joining, x *autograd.Variable) *autograd.Variable { return j.extra.Forward(j.m.Forward(x)) }), "weight"},
		"a layer in Run, in a checkpoint": {in(func(j *joining, x *autograd.Variable) *autograd.Variable {
			return autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable { return j.extra.Forward(in[0]) }, j.m.Forward(x))
		}), "weight"},
		"a layer outside of Run": {func(j *joining, x *autograd.Variable) *autograd.Variable { return j.extra.Forward(j.d.Forward(x)) }, ""},
		"a teacher": {in(func(j *joining, x *autograd.Variable) *autograd.Variable {
			y := j.m.Forward(x)
			return y.Sub(j.extra.Forward(y.Detach()).Detach())
		}), ""},
		"frozen": {in(func(j *joining, x *autograd.Variable) *autograd.Variable {
			j.extra.SetRequiresGrad(false)
			return j.extra.Forward(j.m.Forward(x))
		}), ""},
		"an input": {func(j *joining, x *autograd.Variable) *autograd.Variable {
			one, err := tensor.Ones(j.r.exec, tensor.Float32)
			require.NoError(j.r.t, err)
			defer one.Release() // the graph has a handle of its own
			leaf := x.Graph().Input(one, autograd.RequiresGrad())
			return j.d.Forward(x.Mul(leaf))
		}, ""},
	} {
		for stage := range 4 {
			for _, noSync := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, ZeRO %d, NoSync %v", name, stage, noSync), func(t *testing.T) {
					succeed(t, 2, func(r *rank) error {
						m := nn.New(&extended{In: nn.Linear(inputs, 4)})
						return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
							defer d.ZeroGrad()
							j := &joining{r, m, d, nn.Linear(4, 4)}
							if err := j.extra.To(r.dev, nn.Seed(3), nn.WithAllocator(r.alloc)); err != nil {
								return err
							}
							defer j.extra.Release()
							do := func() error {
								g, x := r.graph(2, inputs)
								defer g.Release()
								return c.pass(j, x).Square().Mean(nil, false).Backward()
							}
							var err error
							if noSync {
								err = d.NoSync(do)
							} else {
								err = do()
							}
							if c.name == "" {
								return err
							}
							require.ErrorContains(r.t, err, "was not among the parameters when Data was called")
							require.ErrorContains(r.t, err, c.name)
							require.Nil(r.t, j.extra.Weight.Grad())
							require.Nil(r.t, j.extra.Bias.Grad())
							var e *parallel.Error
							require.True(r.t, errors.As(err, &e))
							return nil
						})
					})
				})
			}
		}
	}
}
