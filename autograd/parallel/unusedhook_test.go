package parallel_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

// earlier is how a parameter has got a gradient, or none, before passes that do not use it, and how often its hooks are called then: once by the pass that sums what passes in NoSync have given.
var earlier = map[string]struct {
	calls int
	give  func(r *rank, m *two, d *parallel.DataParallel) error
}{
	"SetGrad": {0, func(r *rank, m *two, d *parallel.DataParallel) error {
		return setTo(r, 3, append(d.ParametersOf(m.B.Weight), d.ParametersOf(m.B.Bias)...)...)
	}},
	"a pass": {0, func(r *rank, m *two, d *parallel.DataParallel) error {
		m.both = true
		return r.backward(d, 16)
	}},
	"a pass in NoSync": {1, func(r *rank, m *two, d *parallel.DataParallel) error {
		m.both = true
		return d.NoSync(func() error { return r.backward(d, 16) })
	}},
	"a pass in NoSync of one rank": {1, func(r *rank, m *two, d *parallel.DataParallel) error {
		m.both = r.comm.Rank() == 1
		return d.NoSync(func() error { return r.backward(d, 16) })
	}},
	"a pass in NoSync, released": {0, func(r *rank, m *two, d *parallel.DataParallel) error {
		m.both = true
		defer d.ZeroGrad()
		return d.NoSync(func() error { return r.backward(d, 16) })
	}},
}

// Hooks are called once for each pass that has given a gradient, not for a gradient that was there before and that no rank has added to. It stays.
func TestPostAccumulateHook_IsNotCalledForAGradientOfBefore(t *testing.T) {
	for how, c := range earlier {
		for _, frozen := range []bool{false, true} {
			for stage := range 4 {
				if stage == 3 && how == "a pass in NoSync of one rank" { // all ranks run the same units
					continue
				}
				t.Run(fmt.Sprintf("%s, frozen then %v, ZeRO %d", how, frozen, stage), func(t *testing.T) {
					succeed(t, 2, func(r *rank) error {
						m := newTwo()
						return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64), parallel.FindUnused()}, func(d *parallel.DataParallel) error {
							defer d.ZeroGrad()
							if err := c.give(r, m, d); err != nil {
								return err
							}
							calls := map[*autograd.Parameter]int{}
							for _, p := range d.Parameters() {
								p.RegisterPostAccumulateGradHook(func(p *autograd.Parameter) error { calls[p]++; return nil })
							}
							m.both = false
							for _, p := range m.B.Parameters() {
								p.SetRequiresGrad(!frozen)
							}
							ofB := append(d.ParametersOf(m.B.Weight), d.ParametersOf(m.B.Bias)...)
							for pass := range 3 {
								before := given(r, ofB)
								if err := r.backward(d, 16); err != nil {
									return err
								}
								for _, p := range append(d.ParametersOf(m.A.Weight), d.ParametersOf(m.A.Bias)...) {
									require.Equal(r.t, pass+1, calls[p], p.Name())
								}
								for _, p := range ofB {
									require.Equal(r.t, c.calls, calls[p], p.Name())
								}
								if pass > 0 || c.calls == 0 {
									require.Equal(r.t, before, given(r, ofB))
								}
							}
							return nil
						})
					})
				})
			}
		}
	}
}

// given is gradientsOf of those that have one.
func given(r *rank, ps []*autograd.Parameter) [][]float64 {
	ps = slices.DeleteFunc(slices.Clone(ps), func(p *autograd.Parameter) bool { return p.Grad() == nil })
	return gradientsOf(r.t, ps)
}

// What one rank has used gives all ranks a gradient, and calls the hooks of all, also where others have one of before.
func TestPostAccumulateHook_IsCalledOnAllRanksWhereOneHasUsedTheParameter(t *testing.T) {
	for stage := range 3 { // with ZeRO 3 all ranks run the same units
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("ZeRO %d, a gradient of before %v", stage, before), func(t *testing.T) {
				succeed(t, 2, func(r *rank) error {
					m := newTwo()
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64), parallel.FindUnused()}, func(d *parallel.DataParallel) error {
						defer d.ZeroGrad()
						if before {
							if err := setTo(r, 3, d.Parameters()...); err != nil {
								return err
							}
						}
						calls := 0
						for _, p := range d.Parameters() {
							p.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { calls++; return nil })
						}
						m.both = r.comm.Rank() == 0
						if err := r.backward(d, 16); err != nil {
							return err
						}
						require.Equal(r.t, len(d.Parameters()), calls)
						return nil
					})
				})
			})
		}
	}
}
