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

// A hook is called once for each pass that reduces, with the gradient that all ranks have.
func TestPostAccumulateHook_SeesTheReducedGradient(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				m := nn.Linear(16, 4)
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					calls, own := 0, d.Parameters()
					for _, p := range own {
						p.RegisterPostAccumulateGradHook(func(q *autograd.Parameter) error {
							require.Same(r.t, p, q)
							require.NotNil(r.t, q.Grad())
							calls++
							return nil
						})
					}
					for pass := range 2 {
						if err := r.backward(d, 16); err != nil {
							return err
						}
						require.Equal(r.t, (pass+1)*len(own), calls)
					}
					d.ZeroGrad()
					return nil
				})
			})
		})
	}
}

// So an optimizer that steps in backward trains as one that does afterwards.
func TestStepInBackward_TrainsAsStepDoes(t *testing.T) {
	stepsAlike(t, func() nn.Module { return nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4)) })
}

// stepsAlike trains a model at each stage with steps in backward, which release the gradients, and with steps after it.
func stepsAlike(t *testing.T, model func() nn.Module, options ...parallel.Option) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			all := append([]parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}, options...)
			var values [2]map[string][]float64
			for way := range values {
				succeed(t, 2, func(r *rank) error {
					m := model()
					return withModel(r, m, all, func(d *parallel.DataParallel) error {
						opt := optim.SGD(d.Parameters(), optim.LR(0.1))
						if way == 1 {
							defer opt.StepInBackward()()
						}
						for range 3 {
							if err := r.backward(d, 16); err != nil {
								return err
							}
							if way == 1 {
								for _, p := range d.Parameters() {
									require.Nil(r.t, p.Grad())
								}
							} else if err := opt.Step(); err != nil {
								return err
							}
							d.ZeroGrad()
						}
						have, err := wholeValues(d, m)
						if r.comm.Rank() == 0 {
							values[way] = have
						}
						return err
					})
				})
			}
			require.Equal(t, values[0], values[1])
		})
	}
}

// Steps come at the end of the pass, when all checkpointed regions were run again: a parameter of several may be updated so, which in one process is an error of the second region.
func TestStepInBackward_OfAParameterOfSeveralCheckpointedRegions(t *testing.T) {
	stepsAlike(t, func() nn.Module {
		layer := nn.Linear(16, 16)
		return nn.Sequential(nn.Linear(16, 16), nn.Checkpointed(layer), nn.Tanh(), nn.Checkpointed(layer))
	}, parallel.GradientsInParts())
	one := ranks(t, 1)[0]
	layer := nn.Linear(16, 16)
	m := nn.Sequential(nn.Linear(16, 16), nn.Checkpointed(layer), nn.Tanh(), nn.Checkpointed(layer))
	require.NoError(t, m.To(one.dev, nn.WithAllocator(one.alloc)))
	defer m.Release()
	defer optim.SGD(m.Parameters(), optim.LR(0.1)).StepInBackward()()
	var modified *autograd.ModifiedError
	require.ErrorAs(t, passOf(one, m.Forward), &modified)
}

func TestPostAccumulateHook_OfAParameterWithoutGradientIsRefused(t *testing.T) {
	hook := func(*autograd.Parameter) error { return errors.New("called") }
	for stage := 1; stage < 4; stage++ {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			for _, when := range []string{"before Data", "after Data"} {
				all := ranks(t, 1)
				m := nn.Linear(16, 4)
				if when == "before Data" {
					m.Weight.RegisterPostAccumulateGradHook(hook)
				}
				err := withModel(all[0], m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					m.Weight.RegisterPostAccumulateGradHook(hook)
					return all[0].backward(d, 16)
				})
				var e *parallel.Error
				require.ErrorAs(t, err, &e, when)
				require.Equal(t, "weight", e.Parameter)
				require.ErrorContains(t, err, "register the hook with what ParametersOf has")
				requireNothingKept(t, all)
			}
		})
	}
}

// In NoSync gradients are this rank's, and not yet the mean of all: hooks that wait for that, an optimizer's step among them, are not called, with any stage.
func TestPostAccumulateHook_IsNotCalledInNoSync(t *testing.T) {
	for _, step := range []bool{false, true} {
		var want map[string][]float64
		for stage := range 4 {
			t.Run(fmt.Sprintf("step %v, ZeRO %d", step, stage), func(t *testing.T) {
				all, values := ranks(t, 2), make([]map[string][]float64, 2)
				for i, err := range together(all, func(r *rank) error {
					m := newScaled()
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
						c := &changing{r: r, m: m, d: d, of: tensor.Float32}
						calls, stop := 0, func() {}
						if opt := optim.SGD(d.Parameters(), optim.LR(0.5)); step {
							stop = opt.StepInBackward()
						}
						defer stop()
						for _, p := range d.Parameters() {
							p.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { calls++; return nil })
						}
						if err := errors.Join(inNoSync((*changing).pass)(c), inNoSync((*changing).pass)(c)); err != nil {
							return err
						}
						require.Zero(r.t, calls)
						if err := c.pass(); err != nil {
							return err
						}
						require.Equal(r.t, len(d.Parameters()), calls)
						d.ZeroGrad()
						have, err := wholeValues(d, m)
						values[r.comm.Rank()] = have
						return err
					})
				}) {
					require.NoError(t, err, "rank %d", i)
				}
				require.Equal(t, values[0], values[1])
				if want == nil {
					want = values[0]
				}
				for name, v := range want {
					require.InDeltaSlice(t, v, values[0][name], 1e-6, name)
				}
				requireNothingKept(t, all)
			})
		}
	}
}

// A hook of RegisterHook sees this rank's gradient, before the ranks' are summed, with every stage; a part has none of that, and a hook of it would never be called.
func TestHook_OfAPartIsRefused(t *testing.T) {
	hook := func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, errors.New("called") }
	for stage := 1; stage < 4; stage++ {
		for when, register := range map[string]func(p *autograd.Parameter){
			"before the forward pass":  func(p *autograd.Parameter) { p.RegisterHook(hook) },
			"before the backward pass": func(p *autograd.Parameter) { p.RegisterHook(hook) },
			"of variables": func(p *autograd.Parameter) {
				p.RegisterVariableHook(func(v *autograd.Variable) *autograd.Variable { return v })
			},
		} {
			t.Run(fmt.Sprintf("ZeRO %d, %s", stage, when), func(t *testing.T) {
				succeed(t, 2, func(r *rank) error {
					m := newScaled()
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
						bad := func(now bool) {
							if now && r.comm.Rank() == 1 {
								register(d.Parameters()[0])
							}
						}
						g, x := r.graph(2, inputs)
						defer g.Release()
						bad(when != "before the backward pass")
						loss := d.Forward(x).Square().Mean(nil, false)
						bad(when == "before the backward pass")
						err := loss.Backward()
						if err == nil { // it has not needed the other
							_, err = d.Gather(1)
						}
						require.ErrorContains(r.t, err, "rank 1")
						require.ErrorContains(r.t, err, "register it with the model's parameter")
						return nil
					})
				})
			})
		}
	}
}

// So it is for the model's own: what such a hook returns is what this rank gives to the mean.
func TestHook_SeesThisRanksGradientWithEveryStage(t *testing.T) {
	var want map[string][]float64
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			all, values := ranks(t, 2), make([]map[string][]float64, 2)
			for i, err := range together(all, func(r *rank) error {
				m := newScaled()
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					c := &changing{r: r, m: m, d: d, opt: optim.SGD(d.Parameters(), optim.LR(0.5)), of: tensor.Float32}
					for _, p := range m.Parameters() {
						p.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) { return grad.MulScalar(float64(r.comm.Rank())) })
					}
					if err := errors.Join(c.pass(), c.step(), c.zero()); err != nil {
						return err
					}
					have, err := wholeValues(d, m)
					values[r.comm.Rank()] = have
					return err
				})
			}) {
				require.NoError(t, err, "rank %d", i)
			}
			require.Equal(t, values[0], values[1])
			if want == nil {
				want = values[0]
			}
			for name, v := range want {
				require.InDeltaSlice(t, v, values[0][name], 1e-6, name)
			}
			requireNothingKept(t, all)
		})
	}
}

// A hook that fails on one rank comes after all that its pass sends: the others hear of it in the next pass at the latest.
func TestPostAccumulateHook_ThatFailsIsToldByTheNextPass(t *testing.T) {
	for _, unused := range []bool{false, true} {
		for _, bad := range []int{0, 1} { // the pass: the first one sends the order of the buckets afterwards
			for _, n := range []int{2, 4} {
				t.Run(fmt.Sprintf("pass %d, %d ranks, FindUnused %v", bad, n, unused), func(t *testing.T) {
					for stage := range 4 {
						succeed(t, n, func(r *rank) error {
							opts := []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}
							if unused {
								opts = append(opts, parallel.FindUnused())
							}
							return withModel(r, nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)), opts, func(d *parallel.DataParallel) error {
								defer d.ZeroGrad()
								pass, fails := 0, errors.New("it fails")
								d.Parameters()[0].RegisterPostAccumulateGradHook(func(*autograd.Parameter) error {
									if r.comm.Rank() == 1 && pass == bad {
										return fails
									}
									return nil
								})
								var err error
								for ; pass <= bad && err == nil; pass++ {
									err = r.backward(d, 16)
								}
								if r.comm.Rank() == 1 {
									require.ErrorIs(r.t, err, fails)
								} else if err == nil {
									err = r.backward(d, 16)
								}
								require.ErrorContains(r.t, err, "rank 1: Backward: it fails")
								return nil
							})
						})
					}
				})
			}
		}
	}
}
