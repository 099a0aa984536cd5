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

// alone is a group of one rank with a model.
func alone(t *testing.T, m nn.Layer, opts []parallel.Option, f func(r *rank, d *parallel.DataParallel) error) error {
	t.Helper()
	r := ranks(t, 1)[0]
	return withModel(r, m, opts, func(d *parallel.DataParallel) error { return f(r, d) })
}

// A model whose parameters were replaced would train nothing.
func TestRun_RefusesParametersThatWereReplaced(t *testing.T) {
	for stage := 1; stage < 4; stage++ {
		for name, replace := range map[string]func(r *rank, m nn.Layer) error{
			"To": func(r *rank, m nn.Layer) error {
				return m.To(r.dev, nn.WithAllocator(r.alloc), nn.DType(tensor.Float64))
			},
			"Release, To": func(r *rank, m nn.Layer) error {
				m.Release()
				return m.To(r.dev, nn.WithAllocator(r.alloc))
			},
		} {
			t.Run(fmt.Sprintf("ZeRO %d, %s", stage, name), func(t *testing.T) {
				m := even()
				err := alone(t, m, []parallel.Option{parallel.ZeRO(stage)}, func(r *rank, d *parallel.DataParallel) error {
					if err := r.backward(d, 64); err != nil {
						return err
					}
					d.ZeroGrad()
					if err := replace(r, m); err != nil {
						return nil // it was refused there
					}
					err := r.backward(d, 64)
					require.ErrorContains(t, err, "it was replaced or released since Data")
					return nil
				})
				require.NoError(t, err)
			})
		}
	}
}

// A second graph's step changes what the first one's backward pass would read.
func TestBackward_AfterAnotherGraphsStepIsRefused(t *testing.T) {
	for _, opts := range [][]parallel.Option{{parallel.ZeRO(0)}, {parallel.ZeRO(1)}, {parallel.ZeRO(2)}, {parallel.ZeRO(3)}, {parallel.ZeRO(3), parallel.MasterWeights()}} {
		all := ranks(t, 2)
		for i, err := range together(all, func(r *rank) error {
			model := even()
			if err := model.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc), nn.DType(tensor.BFloat16)); err != nil {
				return err
			}
			defer model.Release()
			d, err := parallel.Data(model, r.comm, opts...)
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			opt := optim.SGD(d.Parameters(), optim.LR(0.1))
			pass := func() (*autograd.Graph, *autograd.Variable) {
				g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
				x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.BFloat16, 2, 64) })
				return g, d.Forward(x).Square().Mean(nil, false)
			}
			first, early := pass()
			defer first.Release()
			second, late := pass()
			defer second.Release()
			if err := errors.Join(late.Backward(), opt.Step()); err != nil {
				return err
			}
			opt.ZeroGrad()
			return early.Backward()
		}) {
			require.Error(t, err, "%d: rank %d", len(opts), i)
			if !errors.Is(err, comm.ErrAborted) {
				require.ErrorIs(t, err, autograd.ErrModified)
			}
		}
		requireNothingKept(t, all)
	}
}

// Gradients of a pass that Close has cut off are one rank's.
func TestClose_BetweenForwardAndBackwardIsTold(t *testing.T) {
	for stage := range 4 {
		err := alone(t, even(), []parallel.Option{parallel.ZeRO(stage)}, func(r *rank, d *parallel.DataParallel) error {
			require.NoError(t, r.backward(d, 64))
			d.ZeroGrad()
			g, x := r.graph(2, 64)
			defer g.Release()
			loss := d.Forward(x).Square().Mean(nil, false)
			require.NoError(t, d.Unshard())
			err := loss.Backward()
			require.ErrorContains(t, err, "closed between the forward and the backward pass", "ZeRO %d", stage)
			for _, p := range d.Module().(nn.Layer).Parameters() {
				p.ZeroGrad()
			}
			g2, x := r.graph(2, 64) // and what comes then is the model's own
			defer g2.Release()
			err = d.Module().(nn.Layer).Forward(x).Square().Mean(nil, false).Backward()
			for _, p := range d.Module().(nn.Layer).Parameters() {
				p.ZeroGrad()
			}
			return err
		})
		require.NoError(t, err, "ZeRO %d", stage)
	}
}

func TestMasterWeights_OfFloat64AreRefused(t *testing.T) {
	r := ranks(t, 1)[0]
	m := even()
	require.NoError(t, m.To(r.dev, nn.WithAllocator(r.alloc), nn.DType(tensor.Float64)))
	defer m.Release()
	_, err := parallel.Data(m, r.comm, parallel.ZeRO(1), parallel.MasterWeights())
	require.ErrorContains(t, err, "it is of float64")
}

// A flag that cannot be sent on one rank ends the group: the others wait for it.
func TestAgreeOverflow_OfAWrongFlagEndsTheGroup(t *testing.T) {
	for name, flag := range map[string]func(e tensor.Exec) (*tensor.Tensor, error){
		"nil":     func(tensor.Exec) (*tensor.Tensor, error) { return nil, nil },
		"float64": func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float64) },
		"two":     func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, 2) },
	} {
		errs := together(ranks(t, 2), func(r *rank) error {
			return withModel(r, even(), []parallel.Option{parallel.ZeRO(1)}, func(d *parallel.DataParallel) error {
				make := flag
				if r.comm.Rank() == 0 {
					make = func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32) }
				}
				found, err := make(r.exec)
				if err != nil {
					return err
				}
				defer found.Release()
				return d.AgreeOverflow(found)
			})
		})
		require.ErrorIs(t, errs[0], comm.ErrAborted, name)
		require.ErrorContains(t, errs[0], "rank 1")
		require.ErrorContains(t, errs[1], "AgreeOverflow", name)
	}
}

func TestRun_OfNoFunctionIsRefused(t *testing.T) {
	for i, err := range together(ranks(t, 2), func(r *rank) error {
		return withModel(r, even(), nil, func(d *parallel.DataParallel) error {
			if r.comm.Rank() == 0 {
				return r.backward(d, 64)
			}
			g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
			defer g.Release()
			d.Run(g, nil)
			return g.Err()
		})
	}) {
		require.ErrorContains(t, err, "the function is nil", "rank %d", i)
	}
}

// A pass without an input or a graph has no place for an error, and the other ranks would wait for what it sends.
func TestForward_OfNilIsRefusedOnAllRanks(t *testing.T) {
	for name, c := range map[string]struct {
		want error
		text string
		pass func(d *parallel.DataParallel) *autograd.Variable
	}{
		"Forward": {autograd.ErrNilVariable, "parallel: rank 1: Forward: nil variable", func(d *parallel.DataParallel) *autograd.Variable { return d.Forward(nil) }},
		"Run":     {autograd.ErrNilGraph, "parallel: rank 1: Run: nil graph", func(d *parallel.DataParallel) *autograd.Variable { return d.Run(nil, nil) }},
	} {
		for stage := range 4 {
			all := ranks(t, 2)
			errs := together(all, func(r *rank) error {
				return withModel(r, even(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					if r.comm.Rank() == 0 {
						return r.backward(d, 64)
					}
					v := c.pass(d)
					require.ErrorIs(t, v.Graph().Err(), c.want, "%s, ZeRO %d", name, stage)
					_, err := v.Item()
					require.ErrorContains(t, err, c.text)
					_, gathered := d.Gather(1)
					require.ErrorIs(t, gathered, c.want, "the group has ended")
					return v.Backward()
				})
			})
			require.ErrorIs(t, errs[0], comm.ErrAborted, "%s, ZeRO %d", name, stage)
			require.ErrorContains(t, errs[0], "rank 1")
			require.ErrorIs(t, errs[1], c.want, "%s, ZeRO %d", name, stage)
			requireNothingKept(t, all)
		}
	}
	require.NoError(t, alone(t, even(), nil, func(r *rank, d *parallel.DataParallel) error {
		require.NoError(t, d.Close())
		require.ErrorIs(t, d.Forward(nil).Graph().Err(), autograd.ErrNilVariable, "and a closed one has no group to end")
		return r.comm.Barrier(t.Context())
	}))
	require.Nil(t, (*parallel.DataParallel)(nil).Forward(nil))
}

// A forward pass whose function has no result is followed by no backward pass, for which the others wait.
func TestRun_WithoutAResultEndsTheGroup(t *testing.T) {
	for name, result := range map[string]func(r *rank) *autograd.Variable{
		"the function has returned nil": func(*rank) *autograd.Variable { return nil },
		"the function has returned a variable of another graph": func(r *rank) *autograd.Variable {
			other, x := r.graph(2, 64)
			r.t.Cleanup(other.Release)
			return x
		},
	} {
		for stage := range 4 {
			all := ranks(t, 2)
			errs := together(all, func(r *rank) error {
				return withModel(r, even(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					if r.comm.Rank() == 0 {
						return r.backward(d, 64)
					}
					g, _ := r.graph(2, 64)
					defer g.Release()
					v := d.Run(g, func() *autograd.Variable { return result(r) })
					_, gathered := d.Gather(1)
					require.ErrorContains(t, gathered, name, "the group has ended")
					return v.Backward()
				})
			})
			require.ErrorIs(t, errs[0], comm.ErrAborted, "%s, ZeRO %d", name, stage)
			require.ErrorContains(t, errs[0], "rank 1")
			require.ErrorContains(t, errs[1], name, "ZeRO %d", stage)
		}
	}
	require.NoError(t, alone(t, even(), nil, func(r *rank, d *parallel.DataParallel) error {
		g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc), autograd.NoGrad())
		defer g.Release()
		_, err := d.Run(g, func() *autograd.Variable { return nil }).Item()
		require.ErrorContains(t, err, "the function has returned nil")
		_, err = d.Gather(1)
		return err // an evaluation ends nothing
	}))
}

// What is said of calls that nobody can make.
func TestErrors_SayWhoseTheyAre(t *testing.T) {
	var none *parallel.DataParallel
	require.EqualError(t, none.NoSync(nil), "parallel: NoSync: the DataParallel was not made by Data")
	require.EqualError(t, none.Whole(nil), "parallel: Whole: the DataParallel was not made by Data")
	_, err := parallel.Data(even(), nil)
	require.ErrorContains(t, err, "parallel: Data: ")
	_, err = parallel.NewSampler(8, 5, 4).Order()
	require.EqualError(t, err, "parallel: NewSampler: of 4 ranks there is no rank 5")
	_, err = parallel.Predict(even(), tensor.Float32, 5, 4, 2)
	require.EqualError(t, err, "parallel: Predict: of 4 ranks there is no rank 5")
	for want, opt := range map[string]parallel.Option{
		"parallel: Predict: unit 0 is nil":                                        parallel.Units(nil),
		"parallel: Predict: unit 0, a *nn.LinearLayer, is no module of the model": parallel.Units(nn.Linear(2, 2)),
	} {
		_, err = parallel.Predict(even(), tensor.Float32, 0, 4, 2, parallel.ZeRO(3), opt)
		require.EqualError(t, err, want)
	}
	for _, err := range together(ranks(t, 2), func(r *rank) error {
		return withModel(r, even(), []parallel.Option{parallel.ZeRO(1)}, func(d *parallel.DataParallel) error {
			own := fmt.Sprintf("parallel: rank %d: ", r.comm.Rank())
			require.EqualError(t, d.NoSync(nil), own+"NoSync: the function is nil")
			require.EqualError(t, d.Whole(nil), own+"Whole: the function is nil")
			if err := d.Unshard(); err != nil {
				return err
			}
			_, err := d.ClipGradNorm(1)
			require.EqualError(t, err, own+"ClipGradNorm: the DataParallel is closed")
			require.EqualError(t, d.ClipGradNormAsync(-1), own+"ClipGradNormAsync: norm -1; it must be a number that is not negative")
			require.EqualError(t, d.AgreeOverflow(nil), own+"AgreeOverflow: the DataParallel is closed")
			return nil
		})
	}) {
		require.NoError(t, err)
	}
}

func TestData_SaysWhichOptionsDiffer(t *testing.T) {
	for i, err := range together(ranks(t, 3), func(r *rank) error {
		return withModel(r, even(), []parallel.Option{parallel.ZeRO(r.comm.Rank() / 2)}, func(*parallel.DataParallel) error { return nil })
	}) {
		var differs *parallel.MismatchError
		require.ErrorAs(t, err, &differs)
		require.True(t, differs.Options)
		require.Equal(t, 2, differs.Rank)
		require.Empty(t, differs.Parameter)
		require.EqualError(t, differs, "parallel: the options of rank 2 differ from rank 0's: rank 0 has ZeRO 0, and rank 2 has ZeRO 1", "rank %d", i)
	}
}

func TestData_SaysWhichUnitsDiffer(t *testing.T) {
	for i, err := range together(ranks(t, 2), func(r *rank) error {
		m := nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
		return withModel(r, m, []parallel.Option{parallel.ZeRO(3), parallel.Units(m.At(r.comm.Rank()))}, func(*parallel.DataParallel) error { return nil })
	}) {
		require.ErrorContains(t, err, "parallel: the options of rank 1 differ from rank 0's: rank 0 has Units 0, and rank 1 has Units 1", "rank %d", i)
	}
}

// On streams that are queues a lost group must show before what it has not made is saved.
func TestWhole_WaitsForTheGroup(t *testing.T) {
	for stage := range 4 {
		all := ranks(t, 2)
		for i, err := range together(all, func(r *rank) error {
			s, err := r.dev.NewStream()
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			if r.exec, err = tensor.On(r.dev, tensor.WithStream(s), tensor.WithAllocator(r.alloc)); err != nil {
				return err
			}
			over := false
			if r.comm.Rank() == 1 {
				r.comm = lost(r.comm, &over)
			}
			model := even()
			if err := model.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc), nn.WithStream(s)); err != nil {
				return err
			}
			defer model.Release()
			d, err := parallel.Data(model, r.comm, parallel.ZeRO(stage))
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			over = true
			g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc), autograd.WithStream(s))
			defer g.Release()
			x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2, 64) })
			err = d.Forward(x).Square().Mean(nil, false).Backward()
			if err == nil {
				err = d.Whole(func() error { return nil })
				require.Error(t, err, "ZeRO %d, rank %d", stage, r.comm.Rank())
			}
			return err
		}) {
			require.Error(t, err, "ZeRO %d, rank %d", stage, i)
		}
	}
}

// On streams that are queues a lost group must show in what reads a number that depends on it: a loss, a gradient, a parameter.
func TestItem_OfWhatALostGroupHasNotMadeIsItsError(t *testing.T) {
	for stage := range 4 {
		for name, read := range map[string]func(d *parallel.DataParallel, loss func() *autograd.Variable) error{
			"Backward, gradient": func(d *parallel.DataParallel, loss func() *autograd.Variable) error {
				if err := loss().Backward(); err != nil {
					return err
				}
				_, err := d.Parameters()[0].Grad().Float64s()
				return err
			},
			"Backward, loss of the next pass": func(d *parallel.DataParallel, loss func() *autograd.Variable) error {
				if err := loss().Backward(); err != nil {
					return err
				}
				d.ZeroGrad()
				_, err := loss().Item()
				return err
			},
		} {
			all := ranks(t, 3)
			errs := together(all, func(r *rank) error {
				return onQueue(r, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel, loss func() *autograd.Variable) error { return read(d, loss) })
			})
			for i, err := range errs[:2] {
				var of *comm.Error
				require.ErrorAs(t, err, &of, "ZeRO %d, %s, rank %d", stage, name, i)
				require.ErrorIs(t, err, comm.ErrAborted)
				require.Equal(t, 2, of.Peer, "%v", err)
				require.NotEmpty(t, of.Operation)
				require.Equal(t, i, of.Rank)
			}
			require.ErrorIs(t, errs[2], errInjected, "ZeRO %d, %s", stage, name)
			requireNothingKept(t, all)
		}
	}
}

// onQueue is a model whose stream is a queue, in a group whose last rank is lost after Data. loss is that of a pass.
func onQueue(r *rank, opts []parallel.Option, f func(d *parallel.DataParallel, loss func() *autograd.Variable) error) error {
	s, err := r.dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	gone := false
	model := even()
	if err := model.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc), nn.WithStream(s)); err != nil {
		return err
	}
	defer model.Release()
	d, err := parallel.Data(model, lost(r.comm, &gone), opts...)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	gone = r.comm.Rank() == r.comm.Size()-1
	var graphs []*autograd.Graph
	defer func() {
		for _, g := range graphs {
			g.Release()
		}
	}()
	return f(d, func() *autograd.Variable {
		g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc), autograd.WithStream(s))
		graphs = append(graphs, g)
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2, 64) })
		return d.Forward(x).Square().Mean(nil, false)
	})
}

// lost is a rank that gives up when its stream comes to the next collective, once over is true.
func lost(c comm.Comm, over *bool) comm.Comm {
	return commtest.Hooked{Comm: c, Before: func(s device.Stream, _ comm.Call) error {
		if !*over {
			return nil
		}
		return s.(device.Executor).Submit("lost", func() error { c.Abort(errInjected); return nil })
	}}
}

// An error is one line, and says nothing twice, also where several streams have it.
func TestErrors_OfALostGroupAreOneLine(t *testing.T) {
	for stage := range 4 {
		for name, f := range map[string]func(d *parallel.DataParallel, loss func() *autograd.Variable) error{
			"Item of the next pass": func(d *parallel.DataParallel, loss func() *autograd.Variable) error {
				if err := loss().Backward(); err != nil {
					return err
				}
				_, err := loss().Item()
				return err
			},
			"Clip": func(d *parallel.DataParallel, loss func() *autograd.Variable) error {
				if err := loss().Backward(); err != nil {
					return err
				}
				if _, err := d.ClipGradNorm(1); err != nil {
					return err
				}
				_, err := d.Gather(1)
				return err
			},
			"Gather": func(d *parallel.DataParallel, loss func() *autograd.Variable) error {
				_, err := d.Gather(1)
				return err
			},
			"Whole": func(d *parallel.DataParallel, _ func() *autograd.Variable) error {
				return d.Whole(func() error { return nil })
			},
			"Forward and Close": func(d *parallel.DataParallel, loss func() *autograd.Variable) error {
				_, err := loss().Item()
				if err == nil {
					err = d.Close()
				}
				return err
			},
		} {
			for i, err := range together(ranks(t, 2), func(r *rank) error {
				return onQueue(r, []parallel.Option{parallel.ZeRO(stage)}, f)
			}) {
				if err == nil {
					continue
				}
				require.NotContains(t, err.Error(), "\n", "ZeRO %d, %s, rank %d", stage, name, i)
				require.NotContains(t, err.Error(), "parallel: parallel:", "ZeRO %d, %s, rank %d", stage, name, i)
			}
		}
	}
}
