package parallel_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// A rank may have no part of what an optimizer has: its step, its state, and the agreement on an overflow are those of the others, without anything to do.
func TestParametersOf_ARankWithoutAPartStepsByDoingNothing(t *testing.T) {
	const n = 3
	kinds := map[string]func(ps []*autograd.Parameter) *optim.Grouped{
		"AdamW":    func(ps []*autograd.Parameter) *optim.Grouped { return optim.AdamW(ps, optim.LR(0.1)) },
		"Adadelta": func(ps []*autograd.Parameter) *optim.Grouped { return optim.Adadelta(ps, optim.LR(0.5)) }, // no kernel of its own
	}
	for name, made := range kinds {
		var want map[string][]float64
		for stage := range 4 {
			for _, scaled := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, ZeRO %d, scaled %v", name, stage, scaled), func(t *testing.T) {
					all, folder := ranks(t, n), t.TempDir()
					values, parts := [n]map[string][]float64{}, [n][2]int{}
					for i, err := range together(all, func(r *rank) error {
						m := nn.Sequential(nn.Linear(inputs, 8), nn.Linear(8, 4, nn.NoBias()))
						return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
							ps := m.Parameters()
							first := made(append(d.ParametersOf(ps[0]), d.ParametersOf(ps[1])...))
							defer first.Release()
							second := made(d.ParametersOf(ps[2]))
							defer second.Release()
							parts[r.comm.Rank()] = [2]int{len(first.Parameters()), len(second.Parameters())}
							scaler := amp.NewGradScaler(amp.AgreedBy(d), amp.Enabled(scaled))
							defer scaler.Release()
							step := func() error {
								g, x := r.graph(2, inputs)
								defer g.Release()
								err := scaler.Backward(d.Forward(x).Square().Mean(nil, false))
								for _, o := range []*optim.Grouped{first, second} {
									err = errors.Join(err, scaler.Step(o))
								}
								skipped, failed := scaler.Skipped(second)
								require.False(r.t, skipped)
								if !scaled {
									failed = nil
								}
								_, clipped := d.ClipGradNorm(1e6)
								clipped = errors.Join(clipped, optim.ClipGradValue(second.Parameters(), 1e6))
								d.ZeroGrad()
								return errors.Join(err, failed, clipped, scaler.Update())
							}
							if err := errors.Join(step(), step()); err != nil {
								return err
							}
							for _, o := range []*optim.Grouped{first, second} {
								dict, err := o.StateDict()
								if err = errors.Join(err, o.LoadStateDict(dict)); err != nil {
									return err
								}
							}
							ck := parallel.NewCheckpoint(d).Optimizer("first", first).Optimizer("second", second)
							if err := ck.Write(r.t.Context(), folder, 2); err != nil {
								return err
							}
							if _, err := ck.Read(r.t.Context(), folder); err != nil {
								return err
							}
							var err error
							values[r.comm.Rank()], err = wholeValues(d, m)
							return err
						})
					}) {
						require.NoError(t, err, "rank %d", i)
					}
					requireNothingKept(t, all)
					if stage == 0 && !scaled {
						want = values[0]
						return
					}
					if stage == 1 || stage == 2 {
						require.Contains(t, parts[:], [2]int{parts[2][0], 0}, "a rank without a part of the second")
					}
					for rank, have := range values {
						for name, v := range want {
							require.InDeltaSlice(t, v, have[name], 1e-5, "%s on rank %d", name, rank)
						}
					}
				})
			}
		}
	}
	require.ErrorContains(t, optim.SGD(nil).Step(), "an empty list of parameters", "no group is there any more")
}

// An overflow on a rank that has a part of an optimizer's parameters is one on the rank that has none.
func TestParametersOf_ARankWithoutAPartHearsOfAnOverflow(t *testing.T) {
	succeed(t, 3, func(r *rank) error {
		m := nn.Sequential(nn.Linear(inputs, 8), nn.Linear(8, 4, nn.NoBias()))
		return withModel(r, m, []parallel.Option{parallel.ZeRO(1)}, func(d *parallel.DataParallel) error {
			opt := optim.SGD(d.ParametersOf(m.Parameters()[2]))
			scaler := amp.NewGradScaler(amp.AgreedBy(d), amp.InitScale(1e38))
			defer scaler.Release()
			g, x := r.graph(2, inputs)
			defer g.Release()
			defer d.ZeroGrad()
			err := scaler.Backward(d.Forward(x).MulScalar(1e6).Square().Mean(nil, false))
			err = errors.Join(err, scaler.Step(opt))
			skipped, failed := scaler.Skipped(opt)
			require.True(r.t, skipped)
			return errors.Join(err, failed, scaler.Update())
		})
	})
}

// Small models leave ranks without an element of a unit or a bucket, and no gradient of it is kept there: Predict knows. The models are drawn by chance.
func TestPredict_OfSmallModelsIsExact(t *testing.T) {
	draw := rand.New(rand.NewPCG(19, 3))
	for range 24 {
		widths := []int{1 + draw.IntN(13), 1 + draw.IntN(13), 1 + draw.IntN(13)}
		n, bias, limit := 2+draw.IntN(3), draw.IntN(2) == 0, []int{1, 100, 1 << 20}[draw.IntN(3)]
		model := func() nn.Layer {
			opts := []nn.LayerOption{nn.NoBias()}
			if bias {
				opts = nil
			}
			return nn.Sequential(nn.Linear(inputs, widths[0], opts...), nn.LayerNorm([]int{widths[0]}), nn.Linear(widths[0], widths[1], opts...), nn.Tanh(), nn.Linear(widths[1], widths[2]))
		}
		for stage := range 4 {
			for _, master := range []bool{false, true} {
				if master && stage == 0 {
					continue
				}
				what := fmt.Sprintf("widths %v, bias %v, buckets of %d bytes, %d ranks, ZeRO %d, master %v", widths, bias, limit, n, stage, master)
				all, dt := ranks(t, n), tensor.Float32
				opts := []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(limit, limit)}
				if master {
					dt, opts = tensor.BFloat16, append(opts, parallel.MasterWeights())
				}
				for i, err := range together(all, func(r *rank) error {
					m := model()
					if err := m.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc), nn.DType(dt)); err != nil {
						return err
					}
					defer m.Release()
					d, err := parallel.Data(m, r.comm, opts...)
					if err != nil {
						require.ErrorContains(r.t, err, "the model is too small", what)
						return nil
					}
					defer d.Close()
					opt := optim.AdamW(d.Parameters())
					defer opt.Release()
					for range 2 {
						g, x := r.graph(2, inputs)
						err = d.Forward(x.To(dt)).Square().Mean(nil, false).Backward()
						g.Release()
						if err = errors.Join(err, opt.Step()); err != nil {
							return err
						}
						h, err := parallel.Predict(model(), dt, r.comm.Rank(), n, 2, opts...)
						if err != nil {
							return err
						}
						require.Equal(r.t, h.Total(), uint64(r.alloc.Stats().RequestedBytes.All.Current), "%s, rank %d: %+v", what, r.comm.Rank(), h)
						d.ZeroGrad()
						require.Equal(r.t, h.Total()-h.Gradients, uint64(r.alloc.Stats().RequestedBytes.All.Current), "%s, rank %d: %+v", what, r.comm.Rank(), h)
					}
					return nil
				}) {
					require.NoError(t, err, "%s, rank %d", what, i)
				}
			}
		}
	}
}
