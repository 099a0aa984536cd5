package parallel_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/tensor"
)

// fragile is a layer that panics if it is told to.
type fragile struct {
	nn.Base
	In    *nn.LinearLayer
	panic bool
}

func (m *fragile) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable {
		if m.panic {
			panic("at the worst moment")
		}
		return m.In.Forward(x)
	})
}

// fragileSection is a section that panics.
type fragileSection struct{ panics func() bool }

func (s fragileSection) Save() (checkpoint.Content, error) {
	if s.panics() {
		panic("at the worst moment")
	}
	return checkpoint.Content{JSON: []byte("1")}, nil
}

func (s fragileSection) Prepare(checkpoint.Content) (checkpoint.Change, error) {
	if s.panics() {
		panic("at the worst moment")
	}
	return checkpoint.Change{}, nil
}

// A panic of a function of the program's on one rank passes through, and the others are told: they do not wait for the rank.
func TestData_APanicEndsTheGroup(t *testing.T) {
	for where, do := range map[string]func(r *rank, d *parallel.DataParallel, m *fragile, folder string, bad bool) error{
		"Run": func(r *rank, d *parallel.DataParallel, m *fragile, _ string, bad bool) error {
			g, x := r.graph(2, inputs)
			defer g.Release()
			return d.Run(g, func() *autograd.Variable {
				if bad {
					panic("at the worst moment")
				}
				return m.Forward(x)
			}).Square().Mean(nil, false).Backward()
		},
		"Forward": func(r *rank, d *parallel.DataParallel, m *fragile, _ string, bad bool) error {
			m.panic = bad
			return r.backward(d, inputs)
		},
		"evaluation": func(r *rank, d *parallel.DataParallel, m *fragile, _ string, bad bool) error {
			m.panic = bad
			_, err := r.evaluate(d.Forward)
			return err
		},
		"post-accumulate hook": func(r *rank, d *parallel.DataParallel, _ *fragile, _ string, bad bool) error {
			if bad {
				d.Parameters()[0].RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { panic("at the worst moment") })
			}
			return r.backward(d, inputs)
		},
		"hook of a gradient": func(r *rank, d *parallel.DataParallel, m *fragile, _ string, bad bool) error {
			if bad {
				m.In.Weight.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { panic("at the worst moment") })
			}
			return r.backward(d, inputs)
		},
		"hook of variables": func(r *rank, d *parallel.DataParallel, m *fragile, _ string, bad bool) error {
			if bad {
				m.In.Bias.RegisterVariableHook(func(*autograd.Variable) *autograd.Variable { panic("at the worst moment") })
			}
			return r.backward(d, inputs)
		},
		"Grad": func(r *rank, d *parallel.DataParallel, _ *fragile, _ string, bad bool) error {
			g, x := r.graph(2, inputs)
			defer g.Release()
			ones, err := x.Tensor()
			if err != nil {
				return err
			}
			in := g.Input(ones, autograd.RequiresGrad())
			y := d.Forward(in)
			if bad {
				y.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { panic("at the worst moment") })
			}
			_, err = autograd.Grad([]*autograd.Variable{y.Sum(nil, false)}, []*autograd.Variable{in}, autograd.RetainGraph())
			return errors.Join(err, y.Square().Mean(nil, false).Backward())
		},
		"full backward hook": func(r *rank, d *parallel.DataParallel, m *fragile, _ string, bad bool) error {
			if bad {
				_, err := nn.RegisterFullBackwardPreHook(m, func(nn.Module, *tensor.Tensor) (*tensor.Tensor, error) { panic("at the worst moment") })
				require.NoError(r.t, err)
			}
			return r.backward(d, inputs)
		},
		"second run of a checkpoint": func(r *rank, d *parallel.DataParallel, m *fragile, _ string, bad bool) error {
			g, x := r.graph(2, inputs)
			defer g.Release()
			return d.Run(g, func() *autograd.Variable {
				runs := 0
				return autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable {
					runs++
					m.panic = bad && runs == 2
					return m.Forward(in[0])
				}, x)
			}).Square().Mean(nil, false).Backward()
		},
		"Whole": func(_ *rank, d *parallel.DataParallel, _ *fragile, _ string, bad bool) error {
			return d.Whole(func() error {
				if bad {
					panic("at the worst moment")
				}
				return nil
			})
		},
		"NoSync": func(_ *rank, d *parallel.DataParallel, _ *fragile, _ string, bad bool) error {
			return d.NoSync(func() error {
				if bad {
					panic("at the worst moment")
				}
				return nil
			})
		},
		"Write": func(r *rank, d *parallel.DataParallel, _ *fragile, folder string, bad bool) error {
			return parallel.NewCheckpoint(d).AddOwn("own", fragileSection{func() bool { return bad }}).Write(r.t.Context(), folder, 1)
		},
		"Read": func(r *rank, d *parallel.DataParallel, _ *fragile, folder string, bad bool) error {
			now := false
			ck := parallel.NewCheckpoint(d).AddOwn("own", fragileSection{func() bool { return now }})
			if err := ck.Write(r.t.Context(), folder, 1); err != nil {
				return err
			}
			now = bad
			_, err := ck.Read(r.t.Context(), folder)
			return err
		},
	} {
		for stage := range 4 {
			t.Run(fmt.Sprintf("%s, ZeRO %d", where, stage), func(t *testing.T) {
				all, folder := ranks(t, 2), t.TempDir()
				for i, err := range together(all, func(r *rank) error {
					m := nn.New(&fragile{In: nn.Linear(inputs, 8)})
					return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
						defer d.ZeroGrad()
						if r.comm.Rank() == 0 {
							err := do(r, d, m, folder, false)
							if err == nil { // it has not needed the other
								_, err = d.Gather(1)
							}
							require.ErrorIs(r.t, err, comm.ErrAborted)
							require.ErrorContains(r.t, err, "rank 1")
							require.ErrorContains(r.t, err, "a panic: at the worst moment")
							return nil
						}
						require.PanicsWithValue(r.t, "at the worst moment", func() { _ = do(r, d, m, folder, true) })
						_, err := d.Gather(1)
						require.ErrorContains(r.t, err, "a panic: at the worst moment")
						require.NotContains(r.t, err.Error(), "Backward: Backward")
						return nil
					})
				}) {
					require.NoError(t, err, "rank %d", i)
				}
				requireNothingKept(t, all)
			})
		}
	}
}

// list is a module whose list of parameters is a function of the program's.
type list struct {
	*nn.LinearLayer
	panic bool
}

func (m *list) OwnParameters() []*autograd.Parameter {
	if m.panic {
		panic("at the worst moment")
	}
	return m.LinearLayer.OwnParameters()
}

func TestData_APanicOfAModuleEndsTheGroup(t *testing.T) {
	succeed(t, 2, func(r *rank) error {
		m := &list{LinearLayer: nn.Linear(inputs, 4)}
		if err := m.To(r.dev, nn.WithAllocator(r.alloc)); err != nil {
			return err
		}
		defer m.Release()
		if r.comm.Rank() == 1 {
			m.panic = true
			require.PanicsWithValue(r.t, "at the worst moment", func() { _, _ = parallel.Data(m, r.comm, parallel.ZeRO(3)) })
			return nil
		}
		d, err := parallel.Data(m, r.comm, parallel.ZeRO(3))
		if err == nil { // it has come so far before
			_, err = d.Gather(1)
			defer d.Close()
		}
		require.ErrorContains(r.t, err, "a panic: at the worst moment")
		return nil
	})
}

// A goroutine that ends within such a function, as a test's FailNow does, is told too.
func TestData_AGoroutineThatEndsEndsTheGroup(t *testing.T) {
	succeed(t, 2, func(r *rank) error {
		return withModel(r, nn.Linear(inputs, 4), nil, func(d *parallel.DataParallel) error {
			if r.comm.Rank() == 0 {
				_, err := d.Gather(1)
				require.ErrorContains(r.t, err, "Whole")
				require.ErrorContains(r.t, err, "has ended the goroutine")
				return nil
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = d.Whole(func() error { runtime.Goexit(); return nil })
			}()
			<-done
			return nil
		})
	})
}

// What ends a group is told in one form, whatever the ranks were doing: by this rank, and what it was about.
func TestData_WhatEndsTheGroupIsToldByTheRankItself(t *testing.T) {
	all := ranks(t, 3)
	for i, err := range together(all, func(r *rank) error {
		return withModel(r, nn.Linear(inputs, 4), nil, func(d *parallel.DataParallel) error {
			if r.comm.Rank() == 1 {
				return d.Run(autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc)), func() *autograd.Variable { return nil }).Graph().Err()
			}
			_, err := d.Gather(1)
			var own *parallel.Error
			require.ErrorAs(r.t, err, &own)
			require.Equal(r.t, r.comm.Rank(), own.Rank, "%v", err)
			require.Equal(r.t, "Gather", own.Op)
			return nil
		})
	}) {
		if i == 1 {
			require.ErrorContains(t, err, "the function has returned nil")
			continue
		}
		require.NoError(t, err, "rank %d", i)
	}
}
