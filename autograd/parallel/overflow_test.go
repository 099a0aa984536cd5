package parallel_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// overflowing are models of which the first that is made has an infinite gradient in a backward pass: on one rank of a group, and in one process.
func overflowing(pass int) func() nn.Layer {
	var made atomic.Int64
	return func() nn.Layer {
		m := nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, classes))
		if made.Add(1) > 1 {
			return m
		}
		passes := 0
		m.At(0).Parameters()[1].RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
			if passes++; passes-1 != pass {
				return nil, nil
			}
			return grad.FullLike(math.Inf(1))
		})
		return m
	}
}

// Parameters in half precision, with float32 of their own or without, train under a scaler as in one process, and an overflow of one rank, also in NoSync, is one of all: none steps, and all have one scale.
func TestGradScaler_OfHalfPrecisionAgreesOnOverflow(t *testing.T) {
	const steps, at = 6, 2
	want := []float64{1024, 2048, 1024, 1024, 2048, 2048}
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		for stage := range 4 {
			for _, master := range []bool{false, true} {
				if master && stage == 0 {
					continue
				}
				for _, parts := range []int{1, 2} {
					t.Run(fmt.Sprintf("%s, ZeRO %d, master weights %v, %d parts", dt, stage, master, parts), func(t *testing.T) {
						scales := make([][]float64, 2)
						var scalers sync.Map
						options := []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 200)}
						if master {
							options = append(options, parallel.MasterWeights())
						}
						c := training{dtype: dt, steps: steps, accumulate: parts, opt: sgd, options: options}
						c.scaler = func(d *parallel.DataParallel) *amp.GradScaler {
							opts := []amp.ScalerOption{amp.InitScale(1024), amp.GrowthInterval(2)}
							if d != nil {
								opts = append(opts, amp.AgreedBy(d))
							}
							s := amp.NewGradScaler(opts...)
							if d != nil {
								scalers.Store(d, s)
							}
							return s
						}
						c.watch = func(r *rank, d *parallel.DataParallel, _ *optim.Grouped, _ int, when string) error {
							if when != "step" {
								return nil
							}
							s, _ := scalers.Load(d)
							v, err := s.(*amp.GradScaler).GetScale()
							scales[r.comm.Rank()] = append(scales[r.comm.Rank()], v)
							return err
						}
						c.model = overflowing(at * parts)
						have := trained(t, 2, c)
						require.Equal(t, [][]float64{want, want}, scales)
						one := c
						one.model = overflowing(at * parts)
						requireClose(t, single(t, one), have, 2e-2)
					})
				}
			}
		}
	}
}

// Unscale refuses gradients in float16, which may have lost small values. A rank that has no part of what the optimizer has hears of it by the others, which end the group.
func TestGradScaler_OfGradientsInFloat16IsRefusedOnAllRanks(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			all := ranks(t, 3)
			for i, err := range together(all, func(r *rank) error {
				m := nn.Sequential(nn.Linear(inputs, 8), nn.Linear(8, 4, nn.NoBias()))
				if err := m.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc), nn.DType(tensor.Float16)); err != nil {
					return err
				}
				defer m.Release()
				d, err := parallel.Data(m, r.comm, parallel.ZeRO(stage))
				if err != nil {
					return err
				}
				defer func() { _ = d.Close() }()
				defer d.ZeroGrad()
				scaler := amp.NewGradScaler(amp.AgreedBy(d), amp.InitScale(2))
				defer scaler.Release()
				opt := optim.SGD(d.ParametersOf(m.Parameters()[2]))
				defer opt.Release()
				g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
				defer g.Release()
				x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float16, 2, inputs) })
				if err := scaler.Backward(d.Forward(x).Square().Mean(nil, false)); err != nil {
					return err
				}
				return scaler.Unscale(opt)
			}) {
				require.ErrorContains(t, err, "FP16 gradients", "rank %d", i)
			}
			requireNothingKept(t, all)
		})
	}
}

// A gradient of one rank alone that is infinite or NaN is one of all: they have the same norm, which is no error, and leave the gradients. A GradScaler, or the program, leaves the step out.
func TestClipGradNorm_OfAGradientThatIsNotFiniteOnOneRank(t *testing.T) {
	const at = 1
	for _, value := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		for _, how := range []string{"in the pass", "after it"} {
			t.Run(fmt.Sprintf("%v, %s", value, how), func(t *testing.T) {
				sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
					defer d.ZeroGrad()
					before, err := wholeValues(d, m)
					if err != nil {
						return err
					}
					var hook *autograd.HookHandle
					if how == "in the pass" && r.comm.Rank() == at {
						hook = m.Parameters()[3].RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) { return grad.FullLike(value) })
					}
					if err := r.backward(d, 16); err != nil {
						return err
					}
					hook.Remove()
					if how == "after it" && (stage == 0 || r.comm.Rank() == at) { // with ZeRO 0 a program that changes one rank's has other ranks than the rest
						if err := d.Parameters()[0].Grad().FillInPlace(value); err != nil {
							return err
						}
					}
					had := gradients(r.t, d)
					norm, err := d.ClipGradNorm(0.5)
					if err != nil {
						return err
					}
					require.True(r.t, math.IsNaN(norm) || math.IsInf(norm, 1), norm)
					require.Equal(r.t, fmt.Sprint(had), fmt.Sprint(gradients(r.t, d)))
					if err := d.ClipGradNormAsync(0.5); err != nil {
						return err
					}
					require.Equal(r.t, fmt.Sprint(had), fmt.Sprint(gradients(r.t, d)))
					if stage == 0 {
						var e *optim.NonFiniteError
						_, err := optim.ClipGradNorm(d.Parameters(), 0.5, optim.ErrorIfNonFinite())
						require.ErrorAs(r.t, err, &e)
					}
					all, err := d.Gather(norm)
					if err != nil {
						return err
					}
					require.Equal(r.t, fmt.Sprint(all[0]), fmt.Sprint(all[1]))

					scaler := amp.NewGradScaler(amp.AgreedBy(d), amp.InitScale(1))
					defer scaler.Release()
					g, x := r.graph(2, 16)
					defer g.Release()
					_ = scaler.Scale(x.Sum(nil, false)) // the gradients there are as of it
					opt := optim.SGD(d.Parameters(), optim.LR(1))
					defer opt.Release()
					if err := scaler.Step(opt); err != nil {
						return err
					}
					skipped, err := scaler.Skipped(opt)
					require.True(r.t, skipped)
					after, failed := wholeValues(d, m)
					require.Equal(r.t, before, after)
					return errors.Join(err, failed)
				})
			})
		}
	}
}
