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
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/tensor"
)

func TestData_TwiceIsRefused(t *testing.T) {
	for stage := range 4 {
		r := ranks(t, 1)[0]
		m := nn.Linear(16, 4)
		require.NoError(t, withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
			others, err := comm.Loopback(r.dev)
			require.NoError(t, err)
			_, err = parallel.Data(m, others[0])
			require.ErrorContains(t, err, "another DataParallel trains it: Unshard or Close that first")
			require.NoError(t, errors.Join(r.backward(d, 16), d.Unshard(), others[0].Close()))
			d.ZeroGrad()
			m.ZeroGrad()
			again, err := parallel.Data(m, r.comm)
			require.NoError(t, err)
			return again.Close()
		}), "ZeRO %d", stage)
	}
}

func TestUnits_OfAnotherModelAreRefused(t *testing.T) {
	all := ranks(t, 1)
	other := nn.Linear(16, 4)
	err := withModel(all[0], nn.Sequential(nn.Linear(16, 4)), []parallel.Option{parallel.ZeRO(3), parallel.Units(other)}, func(*parallel.DataParallel) error { return nil })
	require.ErrorContains(t, err, "unit 0, a *nn.LinearLayer, is no module of the model")
	requireNothingKept(t, all)
}

// borrower uses a weight of one of its layers by itself, before that has run.
type borrower struct {
	nn.Base
	A, B *nn.LinearLayer
}

func (m *borrower) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		return m.B.Forward(m.A.Forward(x).MatMul(g.Param(m.B.Weight)))
	})
}

func TestZeRO3_AParameterOutsideOfItsUnitIsToldTheRemedy(t *testing.T) {
	pass := func(opts func(m *borrower) []parallel.Option) error {
		all := ranks(t, 1)
		defer requireNothingKept(t, all)
		m := nn.New(&borrower{A: nn.Linear(16, 16), B: nn.Linear(16, 16)})
		return withModel(all[0], m, append(opts(m), parallel.ZeRO(3)), func(d *parallel.DataParallel) error { return all[0].backward(d, 16) })
	}
	err := pass(func(*borrower) []parallel.Option { return nil })
	require.ErrorIs(t, err, autograd.ErrNotMaterialized)
	require.ErrorContains(t, err, "name a module in which all its uses are in Units, or leave the module that has it out of them")
	require.NotContains(t, err.Error(), "call DataParallel.Forward")
	require.NoError(t, pass(func(m *borrower) []parallel.Option { return []parallel.Option{parallel.Units(m)} }))
	require.NoError(t, pass(func(m *borrower) []parallel.Option { return []parallel.Option{parallel.Units(m.A)} }))
}

// What a program does with the model's own Forward is the first thing that an error of a value that is away says.
func TestZeRO3_TheModelsForwardIsToldFirst(t *testing.T) {
	all := ranks(t, 1)
	m := newScaled()
	require.NoError(t, withModel(all[0], m, []parallel.Option{parallel.ZeRO(3)}, func(d *parallel.DataParallel) error {
		_, err := all[0].evaluate(m.Forward)
		require.ErrorIs(t, err, autograd.ErrNotMaterialized)
		require.ErrorContains(t, err, "has no tensor: call DataParallel.Forward in place of the model's")
		return nil
	}))
	requireNothingKept(t, all)
}

// A frozen part would be trained all the same: its gradient does not come through it.
func TestSetRequiresGrad_OfAPartIsTold(t *testing.T) {
	for stage := 1; stage < 4; stage++ {
		for i, err := range together(ranks(t, 2), func(r *rank) error {
			return withModel(r, newScaled(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
				if r.comm.Rank() == 1 {
					d.Parameters()[0].SetRequiresGrad(false)
				}
				err := r.backward(d, inputs)
				if err == nil {
					_, err = d.Gather(1)
				}
				require.ErrorContains(r.t, err, "rank 1: Run: parameter")
				require.ErrorContains(r.t, err, "this rank's part of it is frozen")
				return nil
			})
		}) {
			require.NoError(t, err, "rank %d", i)
		}
	}
}

func TestSetRequiresGrad_AfterDataIsTold(t *testing.T) {
	for _, on := range []bool{false, true} {
		for stage := range 4 {
			t.Run(fmt.Sprint(on, ", ZeRO ", stage), func(t *testing.T) {
				all := ranks(t, 1)
				m := nn.Linear(16, 4)
				m.Bias.SetRequiresGrad(!on)
				err := withModel(all[0], m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					m.Bias.SetRequiresGrad(on)
					return all[0].backward(d, 16)
				})
				require.ErrorContains(t, err, "bias")
				require.ErrorContains(t, err, "before Data")
				requireNothingKept(t, all)
			})
		}
	}
}

// After Close what is called says so: also a function of NoSync is not run, and an optimizer of the parts knows why they are gone.
func TestClose_IsNamedByWhatComesAfter(t *testing.T) {
	for stage := range 4 {
		all := ranks(t, 1)
		r := all[0]
		m := nn.Linear(16, 4)
		require.NoError(t, withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
			opt := optim.SGD(d.Parameters(), optim.LR(0.1))
			require.NoError(t, errors.Join(r.backward(d, 16), opt.Step()))
			d.ZeroGrad()
			require.NoError(t, d.Close())
			require.NoError(t, d.Close())
			require.ErrorContains(t, d.NoSync(func() error { t.Error("it was run"); return nil }), "NoSync: the DataParallel is closed")
			if stage == 0 {
				require.NoError(t, d.Unshard(), "the model has its values")
				return nil
			}
			require.ErrorContains(t, d.Unshard(), "Unshard: the DataParallel is closed")
			require.ErrorContains(t, opt.Step(), "DataParallel.Close")
			return nil
		}), "ZeRO %d", stage)
		requireNothingKept(t, all)
	}
}

func TestUnshard_TwiceIsHarmless(t *testing.T) {
	for stage := range 4 {
		all := ranks(t, 1)
		m := nn.Linear(16, 4)
		require.NoError(t, withModel(all[0], m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
			require.NoError(t, errors.Join(d.Unshard(), d.Unshard(), d.Close(), d.Unshard()))
			_, err := valuesOf(m)
			return err
		}), "ZeRO %d", stage)
	}
}

// What was frozen after Data is called that, and not something that the loss does not depend on.
func TestSetRequiresGrad_WhatIsFrozenAfterDataIsSaid(t *testing.T) {
	for stage := range 4 {
		all := ranks(t, 2)
		for i, err := range together(all, func(r *rank) error {
			m := nn.Linear(16, 4)
			return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
				m.Bias.SetRequiresGrad(r.comm.Rank() == 0)
				require.ErrorContains(r.t, r.backward(d, 16), "frozen")
				return nil
			})
		}) {
			require.NoError(t, err, "ZeRO %d, rank %d", stage, i)
		}
		requireNothingKept(t, all)
	}
}

// A second goroutine that comes in the middle of a pass is told, where it can be known.
func TestRun_ByTwoGoroutinesIsTold(t *testing.T) {
	all := ranks(t, 1)
	r := all[0]
	var d *parallel.DataParallel
	var other error
	once := false
	r.comm = commtest.Hooked{Comm: r.comm, Before: func(device.Stream, comm.Call) error {
		if d == nil || once {
			return nil
		}
		once = true
		done := make(chan struct{})
		go func() {
			defer close(done)
			other = r.backward(d, 16)
		}()
		<-done
		return nil
	}}
	err := withModel(r, nn.Sequential(nn.Linear(16, 4), nn.BatchNorm1d(4)), nil, func(made *parallel.DataParallel) error {
		d = made
		return r.backward(d, 16)
	})
	require.ErrorContains(t, other, "used by two goroutines at once")
	require.ErrorContains(t, err, "used by two goroutines at once")
	requireNothingKept(t, all)
}

// A pass within another one has an error that says so, as does that of a second goroutine, which mostly comes there. With ZeRO 0 to 2 a forward pass may be part of another one.
func TestRun_WithinAnotherPassIsTold(t *testing.T) {
	for stage := range 4 {
		for where, do := range map[string]func(r *rank, d *parallel.DataParallel, l *nn.SequentialModule) error{
			"backward": func(r *rank, d *parallel.DataParallel, l *nn.SequentialModule) error {
				g, x := r.graph(2, 16)
				defer g.Release()
				return d.Run(g, func() *autograd.Variable {
					between := l.At(0).Forward(x)
					between.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, r.backward(d, 16) })
					return l.At(1).Forward(between)
				}).Square().Mean(nil, false).Backward()
			},
			"Run": func(r *rank, d *parallel.DataParallel, _ *nn.SequentialModule) error {
				g, x := r.graph(2, 16)
				defer g.Release()
				return d.Run(g, func() *autograd.Variable { return d.Forward(x) }).Square().Mean(nil, false).Backward()
			},
			"Whole": func(r *rank, d *parallel.DataParallel, l *nn.SequentialModule) error {
				g, x := r.graph(2, 16)
				defer g.Release()
				return d.Run(g, func() *autograd.Variable {
					g.Fail(d.Whole(func() error { return nil }))
					return l.Forward(x)
				}).Square().Mean(nil, false).Backward()
			},
		} {
			all := ranks(t, 1)
			m := nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
			err := withModel(all[0], m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
				defer d.ZeroGrad()
				return do(all[0], d, m)
			})
			if where != "backward" && stage < 3 {
				require.NoError(t, err, "%s, ZeRO %d", where, stage)
			} else {
				require.ErrorContains(t, err, "under way", "%s, ZeRO %d", where, stage)
			}
			requireNothingKept(t, all)
		}
	}
}
