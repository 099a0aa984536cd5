package parallel_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// What trains within Whole is refused on all ranks by that name, and leaves the model as it was. A step, which sends nothing, can be taken when Whole has returned; a rank that makes a pass or clips
// alone would keep the others waiting, so that ends the group.
func TestWhole_RefusesWhatTrains(t *testing.T) {
	type trainer struct {
		r    *rank
		d    *parallel.DataParallel
		opt  *optim.Grouped
		loss *autograd.Variable // a forward pass from before Whole
	}
	for stage := range 4 {
		for name, c := range map[string]struct {
			do   func(tr *trainer) error
			ends bool
		}{
			"step":         {func(tr *trainer) error { return tr.opt.Step() }, false},
			"clip":         {func(tr *trainer) error { _, err := tr.d.ClipGradNorm(1); return err }, stage > 0},
			"clip, async":  {func(tr *trainer) error { return tr.d.ClipGradNormAsync(1) }, stage > 0},
			"pass":         {func(tr *trainer) error { return tr.r.backward(tr.d, inputs) }, true},
			"backward":     {func(tr *trainer) error { return tr.loss.Backward() }, true},
			"nested, step": {func(tr *trainer) error { return tr.d.Whole(func() error { return tr.opt.Step() }) }, false},
		} {
			t.Run(fmt.Sprintf("ZeRO %d, %s", stage, name), func(t *testing.T) {
				all := ranks(t, 2)
				for i, err := range together(all, func(r *rank) error {
					m := nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, classes))
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(100, 300)}, func(d *parallel.DataParallel) error {
						tr := &trainer{r: r, d: d, opt: optim.SGD(d.Parameters(), optim.LR(0.5))}
						if err := r.backward(d, inputs); err != nil {
							return err
						}
						before, err := wholeValues(d, m)
						if err != nil {
							return err
						}
						if name == "backward" {
							g, x := r.graph(2, inputs)
							defer g.Release()
							tr.loss = d.Forward(x).Square().Mean(nil, false)
						}
						err = d.Whole(func() error {
							failed := c.do(tr)
							now, err := valuesOf(m)
							require.Equal(r.t, before, now)
							return errors.Join(failed, err)
						})
						require.ErrorContains(r.t, err, "within Whole")
						if c.ends {
							_, err := d.Gather(1)
							require.ErrorContains(r.t, err, "within Whole")
							d.ZeroGrad()
							return nil
						}
						if err := tr.opt.Step(); err != nil {
							return err
						}
						after, err := wholeValues(d, m)
						require.NotEqual(r.t, before, after)
						d.ZeroGrad()
						return errors.Join(err, r.backward(d, inputs))
					})
				}) {
					require.NoError(t, err, "rank %d", i)
				}
			})
		}
	}
}

// All ranks may evaluate within Whole, by the DataParallel as by the model, also with values that were put there just now, and Whole within Whole is the same.
func TestWhole_EvaluatesAndNests(t *testing.T) {
	for stage := range 4 {
		for _, nested := range []bool{false, true} {
			t.Run(fmt.Sprintf("ZeRO %d, nested %v", stage, nested), func(t *testing.T) {
				succeed(t, 2, func(r *rank) error {
					m := nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Checkpointed(nn.Linear(8, classes)))
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(100, 300)}, func(d *parallel.DataParallel) error {
						opt := optim.SGD(d.Parameters(), optim.LR(0.1))
						step := func() error { return errors.Join(r.backward(d, inputs), opt.Step()) }
						if err := step(); err != nil {
							return err
						}
						nn.Eval(m)
						want, err := r.evaluate(d.Forward)
						if err != nil {
							return err
						}
						in := func(f func() error) error { return d.Whole(f) }
						if nested {
							in = func(f func() error) error { return d.Whole(func() error { return errors.Join(d.Whole(f), f()) }) }
						}
						out := m.At(2).(*nn.CheckpointModule).Parameters()[1]
						evaluated := func(want []float64) error {
							have, err := r.evaluate(d.Forward)
							require.Equal(r.t, want, have)
							plain, failed := r.evaluate(m.Forward)
							require.Equal(r.t, want, plain)
							return errors.Join(err, failed)
						}
						if err := in(func() error { return evaluated(want) }); err != nil {
							return err
						}
						if err := in(func() error { // one value is replaced, and used at once
							other, err := tensor.Full(r.exec, 3, tensor.Float32, classes)
							if err != nil {
								return err
							}
							out.Release()
							if err := out.SetTensor(other); err != nil {
								return err
							}
							have, err := r.evaluate(d.Forward)
							require.NotEqual(r.t, want, have)
							return errors.Join(err, evaluated(have))
						}); err != nil {
							return err
						}
						have, err := wholeValues(d, m)
						for _, v := range have["2.bias"] {
							require.Equal(r.t, 3.0, v)
						}
						nn.Train(m)
						d.ZeroGrad()
						err = errors.Join(err, step())
						d.ZeroGrad()
						return err
					})
				})
			})
		}
	}
}

// Release of a parameter releases its gradient, which with ZeRO 1 to 3 is that of the rank's part, and what waits to be summed.
func TestWhole_ReleaseOfAParameterReleasesItsGradient(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint("in NoSync ", waits), func(t *testing.T) {
			sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, _ int, m *nn.SequentialModule, d *parallel.DataParallel) error {
				pass := func() error { return r.backward(d, 16) }
				if err := pass(); err != nil {
					return err
				}
				once := gradients(r.t, d)
				if waits {
					d.ZeroGrad()
					if err := d.NoSync(pass); err != nil {
						return err
					}
				}
				if err := d.Whole(func() error {
					for _, p := range m.Parameters() {
						same, err := p.Tensor().Clone()
						if err != nil {
							return err
						}
						p.Release()
						if err := p.SetTensor(same); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					return err
				}
				requireNoGradients(r.t, d)
				if err := pass(); err != nil {
					return err
				}
				require.Equal(r.t, once, gradients(r.t, d))
				d.ZeroGrad()
				return nil
			})
		})
	}
}
