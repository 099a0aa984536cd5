package parallel_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// setTo gives parameters a gradient of one number each, until one refuses.
func setTo(r *rank, v float64, ps ...*autograd.Parameter) error {
	for _, p := range ps {
		g, err := tensor.Full(r.exec, v, tensor.Float32, p.Shape()...)
		if err != nil {
			return err
		}
		if err := p.SetGrad(g); err != nil {
			g.Release()
			return err
		}
	}
	return nil
}

// A gradient hook that sets the gradient of another parameter does what it does in one process where that has not come yet, or is told: what the ranks sum would replace it. A rank is told in the hook, and the others by its failing pass.
func TestSetGrad_InAHookIsAsInOneProcessOrRefused(t *testing.T) {
	newModel := func() *nn.SequentialModule { return nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)) }
	plain := func(_ *autograd.Graph, f func() *autograd.Variable) *autograd.Variable { return f() }
	for _, place := range []string{"result", "weight", "between", "input"} {
		for _, layer := range []int{0, 1} {
			one, m := ranks(t, 1)[0], newModel()
			require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
			require.NoError(t, hookedPass(one, m, plain, place, func() { require.NoError(t, setTo(one, 3, m.Parameters()[2*layer])) }))
			want, err := m.Parameters()[2*layer].Grad().Float64s()
			require.NoError(t, err)
			m.Release()
			come := place == "input" || layer == 1 && place != "result"
			for _, n := range []int{2, 4} {
				for _, noSync := range []bool{false, true} {
					t.Run(fmt.Sprintf("layer %d, by %s, %d ranks, NoSync %v", layer, place, n, noSync), func(t *testing.T) {
						sharedOutOver(t, n, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
							defer d.ZeroGrad()
							var told error
							pass := func() error {
								return hookedPass(r, m, d.Run, place, func() { told = setTo(r, 3, d.ParametersOf(m.Parameters()[2*layer])...) })
							}
							once := pass
							if noSync {
								once = func() error { return d.NoSync(pass) }
							}
							if err := once(); err != nil {
								return err
							}
							mine := len(d.ParametersOf(m.Parameters()[2*layer])) > 0
							switch {
							case stage == 0 && (noSync || !come), stage > 0 && place == "result", !mine:
								require.NoError(r.t, told)
							case stage == 0:
								var e *autograd.GradError
								require.ErrorAs(r.t, told, &e)
								require.ErrorContains(r.t, told, "has come to those that the ranks sum in the backward pass under way")
							default:
								require.ErrorContains(r.t, told, "a backward pass is under way")
							}
							if noSync { // what it has left is summed with zeros
								if err := zeroPass(r, d); err != nil {
									return err
								}
							}
							if stage == 0 && told == nil {
								require.InDeltaSlice(r.t, want, gradientsOf(r.t, m.Parameters()[2*layer:2*layer+1])[0], 1e-5)
							} else if stage > 0 && place == "result" {
								return requireSums(r, d, want, d.ParametersOf(m.Parameters()[2*layer]))
							}
							return nil
						})
					})
				}
			}
		}
	}
}

// requireSums compares the sums of the gradients of all ranks' parts, and of their squares.
func requireSums(r *rank, d *parallel.DataParallel, want []float64, parts []*autograd.Parameter) error {
	sums := func(all []float64) (sum, squares float64) {
		for _, v := range all {
			sum, squares = sum+v, squares+v*v
		}
		return sum, squares
	}
	have, err := d.Gather(sums(slices.Concat(gradientsOf(r.t, parts)...)))
	if err != nil {
		return err
	}
	sum, squares := sums(want)
	for _, of := range have {
		sum, squares = sum-of[0], squares-of[1]
	}
	require.InDelta(r.t, 0, sum, 1e-3)
	require.InDelta(r.t, 0, squares, 1e-3)
	return nil
}

// gradientsOf are the gradients of parameters, which all have one.
func gradientsOf(t testing.TB, ps []*autograd.Parameter) (all [][]float64) {
	for _, p := range ps {
		v, err := p.Grad().Float64s()
		require.NoError(t, err)
		all = append(all, v)
	}
	return all
}

// A hook that returns the error of SetGrad ends the pass of all ranks with it.
func TestSetGrad_InAHookThatIsRefusedIsToldToAllRanks(t *testing.T) {
	for _, post := range []bool{false, true} {
		for _, n := range []int{2, 4} {
			t.Run(fmt.Sprintf("post-accumulate %v, %d ranks", post, n), func(t *testing.T) {
				sharedOutOver(t, n, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
					defer d.ZeroGrad()
					set := func() error { return setTo(r, 3, d.Parameters()...) }
					if r.comm.Rank() != 1 {
						set = func() error { return nil }
					}
					why := "rank 1: "
					if post {
						why += "Backward: autograd: SetGrad: parameter "
						for _, p := range d.Parameters() {
							p.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { return set() })
						}
					} else {
						m.Parameters()[0].RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, set() })
					}
					err := r.backward(d, 16)
					if err == nil { // a post-accumulate hook comes after all that the pass sends
						err = r.backward(d, 16)
					}
					require.ErrorContains(r.t, err, why)
					require.ErrorContains(r.t, err, "SetGrad: parameter ")
					require.ErrorContains(r.t, err, "backward pass")
					return nil
				})
			})
		}
	}
}

// What post-accumulate hooks set stays, if it is of their own parameter, or of one that has its sum; of others it is refused, and they get theirs.
func TestSetGrad_InAPostAccumulateHook(t *testing.T) {
	for _, n := range []int{2, 4} {
		for _, unused := range []bool{false, true} {
			for _, before := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d ranks, FindUnused %v, a pass before %v", n, unused, before), func(t *testing.T) {
					for stage := range 4 {
						opts := []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}
						if unused {
							opts = append(opts, parallel.FindUnused())
						}
						succeed(t, n, func(r *rank) error {
							return withModel(r, nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)), opts, func(d *parallel.DataParallel) error {
								defer d.ZeroGrad()
								passes := 1
								if before {
									passes = 2
								}
								given := map[*autograd.Parameter]bool{}
								hook := func(p *autograd.Parameter) error {
									given[p] = true
									for _, other := range d.Parameters() {
										before := other.Grad()
										err := setTo(r, float64(len(given)), other)
										if given[other] {
											require.NoError(r.t, err)
											continue
										}
										var e *autograd.GradError
										require.ErrorAs(r.t, err, &e)
										require.ErrorContains(r.t, err, "has yet to give it what the ranks have summed")
										require.Equal(r.t, before, other.Grad())
									}
									return nil
								}
								for pass := range passes {
									if pass == passes-1 {
										for _, p := range d.Parameters() {
											p.RegisterPostAccumulateGradHook(hook)
										}
									}
									if err := r.backward(d, 16); err != nil {
										return err
									}
								}
								require.Len(r.t, given, len(d.Parameters()))
								for _, g := range gradientsOf(r.t, d.Parameters()) {
									for _, v := range g {
										require.InDelta(r.t, len(given), v, 0)
									}
								}
								return setTo(r, 1, d.Parameters()...)
							})
						})
					}
				})
			}
		}
	}
}
