package parallel_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// sharedOut runs f on two ranks at each of the given stages, with a model in two buckets.
func sharedOut(t *testing.T, stages []int, f func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error) {
	t.Helper()
	sharedOutOver(t, 2, stages, f)
}

// sharedOutOver is sharedOut on n ranks.
func sharedOutOver(t *testing.T, n int, stages []int, f func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error) {
	t.Helper()
	for _, stage := range stages {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, n, func(r *rank) error {
				m := nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}, func(d *parallel.DataParallel) error {
					return f(r, stage, m, d)
				})
			})
		})
	}
}

// gradients of what an optimizer has.
func gradients(t testing.TB, d *parallel.DataParallel) (all [][]float64) {
	t.Helper()
	for _, p := range d.Parameters() {
		require.NotNil(t, p.Grad(), p.Name())
		v, err := p.Grad().Float64s()
		require.NoError(t, err)
		all = append(all, v)
	}
	return all
}

func requireNoGradients(t testing.TB, d *parallel.DataParallel) {
	t.Helper()
	for _, p := range d.Parameters() {
		require.Nil(t, p.Grad(), p.Name())
	}
}

// The model's ZeroGrad releases the ranks' parts too, as FSDP's does.
func TestZeroGrad_OfTheModelReleasesTheParts(t *testing.T) {
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, _ int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		for name, clear := range map[string]func(){
			"Base.ZeroGrad": m.ZeroGrad,
			"Parameter.ZeroGrad": func() {
				for _, p := range m.Parameters() {
					p.ZeroGrad()
				}
			},
			"SetGrad(nil)": func() {
				for _, p := range m.Parameters() {
					require.NoError(r.t, p.SetGrad(nil))
				}
			},
			"DataParallel.ZeroGrad": d.ZeroGrad,
		} {
			if err := r.backward(d, 16); err != nil {
				return err
			}
			want := gradients(r.t, d)
			clear()
			requireNoGradients(r.t, d)
			if err := d.NoSync(func() error { return r.backward(d, 16) }); err != nil {
				return err
			}
			clear() // and what waits to be summed
			if err := r.backward(d, 16); err != nil {
				return err
			}
			require.Equal(r.t, want, gradients(r.t, d), name)
			clear()
		}
		return nil
	})
}

// One parameter's ZeroGrad leaves the others' gradients.
func TestZeroGrad_OfOneParameterInNoSyncLeavesTheOthers(t *testing.T) {
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, _ int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		if err := r.backward(d, 16); err != nil {
			return err
		}
		once := gradients(r.t, d)
		d.ZeroGrad()
		if err := d.NoSync(func() error { return r.backward(d, 16) }); err != nil {
			return err
		}
		first := m.Parameters()[0]
		first.ZeroGrad()
		if err := r.backward(d, 16); err != nil {
			return err
		}
		cleared := d.ParametersOf(first)
		for i, v := range gradients(r.t, d) {
			p := d.Parameters()[i]
			times := 2.0
			if len(cleared) == 1 && cleared[0] == p {
				times = 1
			}
			for k := range v {
				require.InDelta(r.t, times*once[i][k], v[k], 1e-6, p.Name())
			}
		}
		d.ZeroGrad()
		return nil
	})
}

// An optimizer has the rank's parts alone: what its ZeroGrad has left would be summed.
func TestZeroGrad_OfAnOptimizerWhileGradientsWaitIsToldByTheNextPass(t *testing.T) {
	sharedOut(t, []int{1, 2, 3}, func(r *rank, _ int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		opt := optim.SGD(d.Parameters(), optim.LR(1))
		pass := func() error { return r.backward(d, 16) }
		if err := d.NoSync(pass); err != nil {
			return err
		}
		opt.ZeroGrad()
		m.ZeroGrad() // which makes it good
		if err := d.NoSync(pass); err != nil {
			return err
		}
		opt.ZeroGrad()
		require.ErrorContains(r.t, pass(), "call DataParallel.ZeroGrad or the model's")
		return nil
	})
}

// A norm is that of all ranks' parts: functions that see one rank's refuse, and say what to call.
func TestClipGradNorm_OfOptimIsRefusedWhereGradientsAreSharedOut(t *testing.T) {
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		if err := r.backward(d, 16); err != nil {
			return err
		}
		defer d.ZeroGrad()
		before := gradients(r.t, d)
		for name, params := range map[string][]*autograd.Parameter{"the model's": m.Parameters(), "parts": d.Parameters()} {
			_, err := optim.ClipGradNorm(params, math.Inf(1))
			async := optim.ClipGradNormAsync(params, math.Inf(1))
			value := optim.ClipGradValue(params, 1e6)
			if stage == 0 {
				require.NoError(r.t, err)
				require.NoError(r.t, async)
				require.NoError(r.t, value)
				continue
			}
			require.ErrorIs(r.t, err, optim.ErrInvalid, name)
			require.ErrorContains(r.t, err, "call DataParallel.ClipGradNorm", name)
			require.ErrorContains(r.t, err, fmt.Sprint("ZeRO ", stage), name)
			require.ErrorContains(r.t, async, "call DataParallel.ClipGradNorm", name)
			if name == "parts" {
				require.NoError(r.t, value, "elements are clipped one by one")
			} else {
				require.ErrorContains(r.t, value, "give what DataParallel.Parameters has")
			}
		}
		require.Equal(r.t, before, gradients(r.t, d))
		return nil
	})
}

func TestLBFGS_OfPartsIsRefused(t *testing.T) {
	sharedOut(t, []int{1, 2, 3}, func(r *rank, _ int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		opt := optim.LBFGS(d.Parameters())
		defer opt.Release()
		opt.SetClosure(func() (float64, error) { return 0, nil })
		require.ErrorContains(r.t, opt.Step(), "it is for ZeRO 0")
		return nil
	})
}

func TestGradScaler_OfGradientsThatAreSharedOutIsToldWhatItNeeds(t *testing.T) {
	sharedOut(t, []int{1, 2, 3}, func(r *rank, _ int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		lonely, agreed := amp.NewGradScaler(), amp.NewGradScaler(amp.AgreedBy(d))
		defer lonely.Release()
		defer agreed.Release()
		pass := func(s *amp.GradScaler) error {
			g, x := r.graph(2, 16)
			defer g.Release()
			return s.Backward(d.Forward(x).Square().Mean(nil, false))
		}
		if err := pass(agreed); err != nil {
			return err
		}
		err := agreed.Unscale(optim.SGD(m.Parameters()))
		require.ErrorIs(r.t, err, amp.SharedGradients)
		require.ErrorContains(r.t, err, "make the optimizer of DataParallel.Parameters")
		opt := optim.SGD(d.Parameters(), optim.LR(1))
		require.NoError(r.t, agreed.Step(opt))
		require.NoError(r.t, agreed.Update())
		d.ZeroGrad()
		if err := pass(lonely); err != nil {
			return err
		}
		require.ErrorContains(r.t, lonely.Step(opt), "make the scaler with AgreedBy")
		d.ZeroGrad()
		if err := d.NoSync(func() error { return pass(agreed) }); err != nil {
			return err
		}
		require.ErrorContains(r.t, agreed.Step(opt), "wait to be summed")
		d.ZeroGrad()
		return nil
	})
}

// Gradients that were added up in NoSync are no rank's part yet. A step would do nothing and say nothing.
func TestStep_WhileGradientsWaitToBeSummedIsRefused(t *testing.T) {
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, stage int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		opt := optim.SGD(d.Parameters(), optim.LR(1))
		pass := func() error { return r.backward(d, 16) }
		if err := pass(); err != nil { // also where the parts have gradients of another pass
			return err
		}
		if err := d.NoSync(pass); err != nil {
			return err
		}
		if stage == 0 { // as PyTorch's DistributedDataParallel
			require.NoError(r.t, opt.Step())
			d.ZeroGrad()
			return nil
		}
		const why = "wait to be summed over the ranks: make a pass outside of NoSync first"
		require.ErrorContains(r.t, opt.Step(), why)
		require.ErrorContains(r.t, optim.ClipGradValue(d.Parameters(), 1), why)
		if err := pass(); err != nil {
			return err
		}
		require.NoError(r.t, opt.Step())
		d.ZeroGrad()
		return nil
	})
}

func TestClipGradNorm_WhileGradientsWaitToBeSummedIsRefused(t *testing.T) {
	for _, within := range []bool{false, true} {
		sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, stage int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
			clip := func() error {
				norm, err := d.ClipGradNorm(1e-3)
				if stage == 0 {
					require.NoError(r.t, err)
					require.Positive(r.t, norm)
					return nil
				}
				require.ErrorContains(r.t, err, "wait to be summed over the ranks")
				require.Error(r.t, d.ClipGradNormAsync(1e-3))
				return nil
			}
			defer d.ZeroGrad()
			if err := d.NoSync(func() error {
				if err := r.backward(d, 16); err != nil || !within {
					return err
				}
				return clip()
			}); err != nil || within {
				return err
			}
			return clip()
		})
	}
}

// A gradient that is given to a parameter of the model goes nowhere but with ZeRO 0: it is refused, and the parts take theirs, but while others wait to be summed with them.
func TestSetGrad_IsTakenOrRefused(t *testing.T) {
	for _, n := range []int{2, 4} {
		sharedOutOver(t, n, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
			set := func(p *autograd.Parameter) error {
				g, err := tensor.Full(r.exec, 3, tensor.Float32, p.Shape()...)
				if err != nil {
					return err
				}
				err = p.SetGrad(g)
				if err != nil {
					g.Release()
				}
				return err
			}
			if err := r.backward(d, 16); err != nil {
				return err
			}
			want := gradients(r.t, d)
			for _, p := range m.Parameters() {
				err := set(p)
				if stage == 0 {
					require.NoError(r.t, err)
					continue
				}
				var e *autograd.GradError
				require.ErrorAs(r.t, err, &e)
				require.ErrorContains(r.t, err, fmt.Sprintf("with ZeRO %d its gradients go to the ranks' parts of it: give it to what DataParallel.ParametersOf has", stage))
				require.Nil(r.t, p.Grad())
			}
			if stage > 0 {
				require.Equal(r.t, want, gradients(r.t, d))
			}
			for _, p := range d.Parameters() {
				if err := set(p); err != nil {
					return err
				}
			}
			for _, v := range slices.Concat(gradients(r.t, d)...) {
				require.InDelta(r.t, 3, v, 0)
			}
			d.ZeroGrad()
			if err := d.NoSync(func() error { return r.backward(d, 16) }); err != nil {
				return err
			}
			if err := set(d.Parameters()[0]); stage > 0 {
				require.ErrorContains(r.t, err, "gradients of passes in NoSync wait to be summed over the ranks")
			} else if err != nil {
				return err
			}
			d.ZeroGrad()
			if err := r.backward(d, 16); err != nil {
				return err
			}
			require.Equal(r.t, want, gradients(r.t, d))
			d.ZeroGrad()
			return nil
		})
	}
}
