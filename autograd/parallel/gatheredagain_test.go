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
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// changing is a rank of a program that changes parameters between what gathers them.
type changing struct {
	r    *rank
	m    nn.Layer
	d    *parallel.DataParallel
	opt  *optim.Grouped
	of   tensor.DType
	seen []float64 // what the program has read of the model
}

// scaled is a model with a parameter of its own, which with ZeRO 3 is in no unit.
type scaled struct {
	nn.Base
	A, B  *nn.LinearLayer
	Scale *autograd.Parameter
}

func newScaled() *scaled {
	return nn.New(&scaled{A: nn.Linear(inputs, 7), B: nn.Linear(7, 3), Scale: autograd.DeclareParameter("scale", nn.Ones, 3)})
}

func (m *scaled) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		return m.B.Forward(m.A.Forward(x).Tanh()).Mul(g.Param(m.Scale))
	})
}

// pass is a training pass, with examples of the rank's own.
func (c *changing) pass() error {
	g, x := c.r.graph(2, inputs)
	defer g.Release()
	return c.loss(x).Backward()
}

func (c *changing) loss(x *autograd.Variable) *autograd.Variable {
	return c.d.Forward(x.MulScalar(1+float64(c.r.comm.Rank())/4).To(c.of)).AddScalar(-1).Square().Mean(nil, false)
}

// evaluate reads the model by a forward pass.
func (c *changing) evaluate() error {
	v, err := c.r.evaluate(func(x *autograd.Variable) *autograd.Variable { return c.d.Forward(x.To(c.of)) })
	c.seen = append(c.seen, v...)
	return err
}

// whole reads the parameters.
func (c *changing) whole() error {
	values, err := wholeValues(c.d, c.m)
	for _, n := range nn.NamedParameters(c.m) {
		c.seen = append(c.seen, values[n.Name]...)
	}
	return err
}

func (c *changing) step() error { return c.opt.Step() }

func (c *changing) zero() error {
	c.d.ZeroGrad()
	return nil
}

// write changes the values that the rank has of the parameters, by hand.
func (c *changing) write() error {
	for _, p := range c.d.Parameters() {
		if err := p.Tensor().MulScalarInPlace(1.5); err != nil {
			return err
		}
	}
	return nil
}

// one changes a parameter of which one rank alone has a part.
func (c *changing) one() error {
	ps := c.m.Parameters()
	for _, p := range c.d.ParametersOf(ps[len(ps)-1]) {
		if err := p.Tensor().AddScalarInPlace(0.5); err != nil {
			return err
		}
	}
	return nil
}

// inNoSync does it there.
func inNoSync(f func(c *changing) error) func(c *changing) error {
	return func(c *changing) error { return c.d.NoSync(func() error { return f(c) }) }
}

// dropped is a forward pass of training of which no backward pass comes.
func (c *changing) dropped() error {
	g, x := c.r.graph(2, inputs)
	defer g.Release()
	_, err := c.loss(x).Item()
	return err
}

// Whatever changes a rank's part of the parameters, and when, all that read them afterwards have the new values on all ranks: as with ZeRO 0, which has nothing to gather.
func TestZeRO_WhatChangesAPartIsGathered(t *testing.T) {
	type steps = []func(c *changing) error
	pass, step, eval, whole := (*changing).pass, (*changing).step, (*changing).evaluate, (*changing).whole
	write, one, dropped := (*changing).write, (*changing).one, (*changing).dropped
	for name, program := range map[string]steps{
		"evaluation before the step":            {pass, eval, step, eval, whole},
		"Whole before the step":                 {pass, whole, step, whole, eval},
		"Whole before the step, then pass":      {pass, whole, step, pass, step, eval, whole},
		"two steps":                             {pass, step, whole, step, eval, whole},
		"a step between two evaluations":        {pass, step, eval, step, eval, eval},
		"a write before any pass":               {write, eval, whole},
		"a write after an evaluation":           {pass, step, eval, write, eval, whole},
		"a write of one rank":                   {pass, step, eval, one, eval, whole, one, pass, step, whole},
		"evaluations in NoSync":                 {pass, inNoSync(eval), step, inNoSync(eval), whole},
		"a pass in NoSync after the step":       {pass, eval, step, (*changing).zero, inNoSync(pass), pass, step, whole},
		"a pass that is dropped":                {pass, dropped, step, eval, whole},
		"a step while a pass that is dropped":   {dropped, pass, whole, dropped, step, eval, dropped, write, eval, whole},
		"a pass after two with gradients added": {pass, eval, step, pass, pass, eval, step, eval},
	} {
		var want []float64 // what ZeRO 0 reads
		for _, s := range shardings {
			t.Run(fmt.Sprintf("%s, %v", name, s), func(t *testing.T) {
				all, seen := ranks(t, 2), make([][]float64, 2)
				for i, err := range together(all, func(r *rank) (err error) {
					m := newScaled()
					if err := m.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc), nn.DType(s.dtype())); err != nil {
						return err
					}
					defer m.Release()
					opts := []parallel.Option{parallel.ZeRO(s.stage), parallel.BucketBytes(100, 100)}
					if s.master {
						opts = append(opts, parallel.MasterWeights())
					}
					d, err := parallel.Data(m, r.comm, opts...)
					if err != nil {
						return err
					}
					defer func() { err = errors.Join(err, d.Close()) }()
					c := &changing{r: r, m: m, d: d, opt: optim.SGD(d.Parameters(), optim.LR(0.5)), of: s.dtype()}
					for i, do := range program {
						if err := do(c); err != nil {
							return fmt.Errorf("action %d: %w", i, err)
						}
					}
					d.ZeroGrad()
					seen[r.comm.Rank()] = c.seen
					return d.Unshard()
				}) {
					require.NoError(t, err, "rank %d", i)
				}
				require.Equal(t, seen[0], seen[1])
				if s.stage == 0 {
					want = seen[0]
				}
				tolerance := 1e-5
				if s.master { // what is read is in bfloat16
					tolerance = 0.06
				}
				require.InDeltaSlice(t, want, seen[0], tolerance)
				requireNothingKept(t, all)
			})
		}
	}
}

// While gradients of NoSync wait nobody steps, so that nobody is asked: a write then is an error, and no silence.
func TestNoSync_AChangeOfAPartWhileGradientsWaitIsTold(t *testing.T) {
	for stage := 1; stage < 3; stage++ {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				m := newScaled()
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					c := &changing{r: r, m: m, d: d, of: tensor.Float32}
					require.NoError(r.t, errors.Join(inNoSync((*changing).pass)(c), c.write(), c.evaluate(), c.pass(), inNoSync((*changing).pass)(c)))
					if r.comm.Rank() == 1 {
						require.NoError(r.t, c.write())
					}
					err := c.pass()
					require.ErrorContains(r.t, err, "rank 1: Run: this rank's part of the parameters was changed after a pass in NoSync, and before the one that sums the gradients: call Whole")
					return nil
				})
			})
		})
	}
}

// After a change that was not gathered Close leaves no values that other ranks do not have.
func TestClose_AfterAChangeLeavesNoValues(t *testing.T) {
	for stage := 1; stage < 3; stage++ {
		for _, gathered := range []bool{false, true} {
			succeed(t, 2, func(r *rank) error {
				m := newScaled()
				if err := m.To(r.dev, nn.WithAllocator(r.alloc)); err != nil {
					return err
				}
				defer m.Release()
				d, err := parallel.Data(m, r.comm, parallel.ZeRO(stage))
				if err != nil {
					return err
				}
				c := &changing{r: r, m: m, d: d, of: tensor.Float32}
				if err := errors.Join(c.write(), c.evaluate(), c.write()); err != nil {
					return err
				}
				if gathered {
					err = c.whole()
				}
				err = errors.Join(err, d.Close())
				require.Equal(r.t, gathered, m.Scale.Tensor() != nil)
				return err
			})
		}
	}
}

// What asks and gathers again ends all ranks when it fails on one, and nobody keeps memory.
func TestZeRO_GatheringAgainThatFailsEndsAllRanks(t *testing.T) {
	for name, with := range map[string]func(r *rank, n *nth){
		"allocations": func(r *rank, n *nth) {
			r.alloc = poor{r.alloc, n}
			e, err := tensor.On(r.dev, tensor.WithAllocator(r.alloc))
			require.NoError(t, err)
			r.exec = e
		},
		"collectives": func(r *rank, n *nth) { r.comm = broken(r.comm, n) },
	} {
		for stage := 1; stage < 4; stage++ {
			t.Run(fmt.Sprintf("%s, ZeRO %d", name, stage), func(t *testing.T) {
				failed := 0
				everyNth(t, 5, func(t *testing.T, at int64) bool {
					all, n := ranks(t, 2), &nth{at: at}
					caching := []memory.Allocator{all[0].alloc, all[1].alloc}
					with(all[1], n)
					errs := together(all, func(r *rank) error {
						m := newScaled()
						return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(100, 100)}, func(d *parallel.DataParallel) error {
							defer d.ZeroGrad()
							c := &changing{r: r, m: m, d: d, opt: optim.SGD(d.Parameters(), optim.LR(0.5)), of: tensor.Float32}
							for _, do := range []func(c *changing) error{(*changing).dropped, (*changing).pass, (*changing).dropped, (*changing).step, (*changing).evaluate, (*changing).write, (*changing).evaluate, (*changing).whole} {
								if err := do(c); err != nil {
									return err
								}
							}
							return d.Unshard()
						})
					})
					for i := range all {
						require.NoError(t, all[i].dev.Synchronize(t.Context()), "call %d", at)
						require.Zero(t, caching[i].Stats().AllocatedBytes.All.Current, "call %d, rank %d: %v", at, i, errs[1])
					}
					if n.calls.Load() < at {
						require.NoError(t, errors.Join(errs...))
						return false
					}
					failed++
					require.ErrorIs(t, errs[1], errInjected, "call %d", at)
					if errs[0] != nil {
						require.ErrorIs(t, errs[0], comm.ErrAborted, "call %d: %v", at, errs[1])
					}
					return true
				})
				require.Greater(t, failed, 3)
			})
		}
	}
}
