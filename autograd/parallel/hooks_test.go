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
)

// A hook is called once for each pass that reduces, with the gradient that all ranks have.
func TestPostAccumulateHook_SeesTheReducedGradient(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			all := ranks(t, 2)
			for i, err := range together(all, func(r *rank) error {
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
			}) {
				require.NoError(t, err, "rank %d", i)
			}
			requireNothingKept(t, all)
		})
	}
}

// So an optimizer that steps in backward trains as one that does afterwards.
func TestStepInBackward_TrainsAsStepDoes(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			var values [2]map[string][]float64
			for way := range values {
				all := ranks(t, 2)
				for i, err := range together(all, func(r *rank) error {
					m := nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}, func(d *parallel.DataParallel) error {
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
				}) {
					require.NoError(t, err, "rank %d", i)
				}
				requireNothingKept(t, all)
			}
			require.Equal(t, values[0], values[1])
		})
	}
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
