package parallel_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// What copies the model elsewhere than in Whole, after a step, would have values that are not there, or other ones on each rank. It is an error that says to do it in Whole, where it works; so it does when a forward pass has gathered.
func TestWhole_IsWhereTheModelIsCopied(t *testing.T) {
	type reader = func(c *changing, m *scaled, made *nn.AveragedModel[*scaled]) error
	for name, read := range map[string]reader{
		"EMA": func(_ *changing, m *scaled, _ *nn.AveragedModel[*scaled]) error {
			a, err := nn.EMA(m, 0.9)
			if err == nil {
				a.Release()
			}
			return err
		},
		"Update": func(_ *changing, m *scaled, made *nn.AveragedModel[*scaled]) error { return made.Update(m) },
		"With": func(_ *changing, m *scaled, made *nn.AveragedModel[*scaled]) error {
			return made.With(m, func() error { return nil })
		},
		"SoftUpdate": func(_ *changing, m *scaled, made *nn.AveragedModel[*scaled]) error {
			return nn.SoftUpdate(made.Module, m, 0.5)
		},
		"Clone": func(_ *changing, m *scaled, _ *nn.AveragedModel[*scaled]) error {
			n, err := nn.Clone(m)
			if err == nil {
				n.Release()
			}
			return err
		},
		"Save": func(_ *changing, m *scaled, _ *nn.AveragedModel[*scaled]) error {
			return nn.Save(new(bytes.Buffer), m)
		},
		"checkpoint": func(c *changing, m *scaled, _ *nn.AveragedModel[*scaled]) error {
			return checkpoint.New().Add("model", checkpoint.Module(m)).Write(c.r.t.Context(), new(bytes.Buffer))
		},
	} {
		for stage := range 4 {
			t.Run(fmt.Sprintf("%s, ZeRO %d", name, stage), func(t *testing.T) {
				succeed(t, 2, func(r *rank) error {
					m := newScaled()
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(100, 100)}, func(d *parallel.DataParallel) error {
						c := &changing{r: r, m: m, d: d, opt: optim.SGD(d.Parameters(), optim.LR(0.1)), of: tensor.Float32}
						var made *nn.AveragedModel[*scaled]
						if err := d.Whole(func() (err error) { made, err = nn.EMA(m, 0.9); return err }); err != nil {
							return err
						}
						defer made.Release()
						if err := errors.Join(c.pass(), c.step(), c.zero()); err != nil {
							return err
						}
						outside := read(c, m, made)
						if stage == 0 {
							require.NoError(r.t, outside)
						} else {
							require.ErrorContains(r.t, outside, "call it in Whole")
						}
						require.NoError(r.t, d.Whole(func() error { return read(c, m, made) }))
						if err := c.evaluate(); err != nil {
							return err
						}
						if name != "With" && stage < 3 {
							require.NoError(r.t, read(c, m, made))
						}
						return nil
					})
				})
			})
		}
	}
}

// What Data refuses Predict refuses likewise.
func TestPredict_RefusesWhatDataDoes(t *testing.T) {
	frozen := func() nn.Layer { m := nn.Linear(4, 4); m.SetRequiresGrad(false); return m }
	for name, c := range map[string]struct {
		model func() nn.Layer
		dt    tensor.DType
		opts  []parallel.Option
		text  string
	}{
		"too small":       {func() nn.Layer { return nn.Linear(1, 1) }, tensor.Float32, []parallel.Option{parallel.ZeRO(2)}, "ZeRO 2: the model is too small for 3 ranks: there is nothing for rank 2 to keep"},
		"too small, 3":    {func() nn.Layer { return nn.Linear(1, 1) }, tensor.Float32, []parallel.Option{parallel.ZeRO(3)}, "ZeRO 3: the model is too small for 3 ranks: there is nothing for rank 2 to keep"},
		"nothing trained": {frozen, tensor.Float32, nil, "the model has no parameter that requires a gradient"},
		"stage":           {even, tensor.Float32, []parallel.Option{parallel.ZeRO(4)}, "ZeRO(4): there are stages 0 to 3"},
		"masters":         {even, tensor.Float32, []parallel.Option{parallel.MasterWeights()}, "MasterWeights are for ZeRO 1 to 3"},
		"wide masters":    {even, tensor.Float64, []parallel.Option{parallel.ZeRO(1), parallel.MasterWeights()}, "MasterWeights are float32, and it is of float64"},
		"units":           {even, tensor.Float32, []parallel.Option{parallel.Units(nn.Linear(1, 1))}, "unit 0, a *nn.LinearLayer, is no module of the model"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parallel.Predict(c.model(), c.dt, 0, 3, 2, c.opts...)
			require.ErrorContains(t, err, c.text)
			for _, err := range together(ranks(t, 3), func(r *rank) error {
				m := c.model()
				if err := m.To(r.dev, nn.WithAllocator(r.alloc), nn.DType(c.dt)); err != nil {
					return err
				}
				defer m.Release()
				_, err := parallel.Data(m, r.comm, c.opts...)
				return err
			}) {
				require.ErrorContains(t, err, c.text)
			}
		})
	}
}
