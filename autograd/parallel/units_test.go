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

// tied is a model as language models are: a list of blocks, one of them run twice, another checkpointed, a weight that the first and the last layer share, and a scale of
// the model's own.
type tied struct {
	nn.Base
	In     *nn.LinearLayer
	Blocks []nn.Layer
	Norm   *nn.LayerNormLayer
	Out    *nn.LinearLayer
	Scale  *autograd.Parameter
	twice  bool
}

func newTied(checkpointed, twice bool) *tied {
	block := func() nn.Layer {
		return nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))
	}
	m := &tied{In: nn.Linear(inputs, 24), Norm: nn.LayerNorm([]int{24}), Out: nn.Linear(24, classes), twice: twice, Scale: autograd.DeclareParameter("scale", nn.Ones, 24)}
	m.Blocks = []nn.Layer{block(), block(), block()}
	m.Blocks[2].(*nn.SequentialModule).At(0).(*nn.LinearLayer).Bias = m.Blocks[0].(*nn.SequentialModule).At(0).(*nn.LinearLayer).Bias
	if checkpointed {
		m.Blocks[1] = nn.Checkpointed(m.Blocks[1])
	}
	return nn.New(m)
}

func (m *tied) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		x := m.In.Forward(x)
		for i, b := range m.Blocks {
			x = x.Add(b.Forward(x))
			if i == 0 && m.twice {
				x = x.Add(b.Forward(x))
			}
		}
		return m.Out.Forward(m.Norm.Forward(x).Mul(g.Param(m.Scale)))
	})
}

func TestZeRO_TrainsModelsThatShareRepeatAndCheckpoint(t *testing.T) {
	for stage := range 4 {
		for _, checkpointed := range []bool{false, true} {
			for _, twice := range []bool{false, true} {
				t.Run(fmt.Sprintf("ZeRO %d, checkpointed %v, twice %v", stage, checkpointed, twice), func(t *testing.T) {
					c := training{model: func() nn.Layer { return newTied(checkpointed, twice) }, steps: 6, opt: sgd, accumulate: 2}
					c.options = []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(1000, 4000)}
					requireClose(t, single(t, c), trained(t, 2, c), 2e-5)
				})
			}
		}
	}
}

// Units of the program's choice: blocks within blocks.
func TestUnits_MayBeNested(t *testing.T) {
	model := func() nn.Layer {
		inner := nn.Sequential(nn.Linear(24, 24), nn.ReLU())
		outer := nn.Sequential(nn.Linear(24, 24), inner, nn.Linear(24, 24))
		return nn.Sequential(nn.Linear(inputs, 24), outer, nn.Linear(24, classes))
	}
	c := training{model: model, steps: 6, opt: sgd}
	want := single(t, c)
	c.defaults()
	all, results := ranks(t, 2), make([]result, 2)
	for i, err := range together(all, func(r *rank) (err error) {
		m := model()
		o := m.(*nn.SequentialModule).At(1).(*nn.SequentialModule)
		own := c
		own.model = func() nn.Layer { return m }
		own.options = []parallel.Option{parallel.ZeRO(3), parallel.Units(o, o.At(1))}
		results[r.comm.Rank()], err = own.run(r)
		return err
	}) {
		require.NoError(t, err, "rank %d", i)
	}
	require.Equal(t, results[0].values, results[1].values)
	require.InDeltaMapValues(t, map[string]float64{"loss": want.losses[5]}, map[string]float64{"loss": (results[0].losses[5] + results[1].losses[5]) / 2}, 1e-5)
}

// While a deep model computes, two of its units are whole at most, and when it has computed, none.
func TestZeRO3_HasTwoUnitsAtATime(t *testing.T) {
	const depth, width = 12, 64
	deep := func() *nn.SequentialModule {
		layers := make([]nn.Layer, depth)
		for i := range layers {
			layers[i] = nn.Linear(width, width, nn.NoBias())
		}
		return nn.Sequential(layers...)
	}
	const unit = width * width * 4
	for i, err := range together(ranks(t, 2), func(r *rank) error {
		m := deep()
		return withModel(r, m, []parallel.Option{parallel.ZeRO(3)}, func(d *parallel.DataParallel) error {
			opt := optim.SGD(d.Parameters(), optim.LR(0.01))
			defer opt.Release()
			most := 0
			whole := func() {
				n := 0
				for _, p := range m.Parameters() {
					if p.Tensor() != nil {
						n++
					}
				}
				most = max(most, n)
			}
			gathered, before := make([]int64, depth), int64(0)
			for i := range depth {
				_, err := nn.RegisterForwardHook(m.At(i), func(nn.Module, *autograd.Variable, *autograd.Variable) (*autograd.Variable, error) {
					gathered[i] = r.comm.Stats().AllGather.Calls - before
					return nil, nil
				})
				require.NoError(r.t, err)
				_, err = nn.RegisterForwardHook(m.At(i), func(nn.Module, *autograd.Variable, *autograd.Variable) (*autograd.Variable, error) {
					whole()
					return nil, nil
				})
				require.NoError(r.t, err)
				m.At(i).Parameters()[0].RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { whole(); return nil, nil })
			}
			for step := range 3 {
				r.alloc.(*memory.Caching).ResetPeakStats()
				before = r.comm.Stats().AllGather.Calls
				held := r.alloc.Stats().AllocatedBytes.All.Current
				if err := errors.Join(r.backward(d, width), opt.Step()); err != nil {
					return err
				}
				opt.ZeroGrad()
				for i, n := range gathered {
					want := int64(i + 1)
					if step > 0 { // the next one is on its way
						want = min(want+1, depth)
					}
					require.Equal(r.t, want, n, "step %d, layer %d", step, i)
				}
				require.Equal(r.t, 1, most, "the next one has no values yet")
				// two units, one unit's gradients twice (as backward has made them, and in their bucket), its shard and those of the others, and activations of some kilobytes
				require.Less(r.t, r.alloc.Stats().AllocatedBytes.All.Peak-held, int64(4*unit+depth*unit/2+16<<10), "step %d", step)
			}
			h, err := parallel.Predict(m, tensor.Float32, r.comm.Rank(), 2, 0, parallel.ZeRO(3))
			require.NoError(r.t, err)
			require.EqualValues(r.t, 2*unit, h.Gathered)
			require.EqualValues(r.t, h.Parameters, r.alloc.Stats().AllocatedBytes.All.Current)
			return nil
		})
	}) {
		require.NoError(t, err, "rank %d", i)
	}
}

// evaluate is what forward makes of ones, without gradients.
func (r *rank) evaluate(forward func(*autograd.Variable) *autograd.Variable) ([]float64, error) {
	g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc), autograd.NoGrad())
	defer g.Release()
	return forward(g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2, inputs) })).Float64s()
}

// Evaluation gathers as well, and leaves nothing whole; outside of Run the parameters have no values, and say why.
func TestZeRO_EvaluatesWithoutGradientsAndSavesWhole(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				m := newTied(true, false)
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					evaluate := r.evaluate
					opt := optim.SGD(d.Parameters(), optim.LR(0.1))
					defer opt.Release()
					if err := errors.Join(r.backward(d, inputs), opt.Step()); err != nil {
						return err
					}
					opt.ZeroGrad()
					held := r.alloc.Stats().AllocatedBytes.All.Current
					have, err := evaluate(d.Forward)
					if err != nil {
						return err
					}
					require.Equal(r.t, held, r.alloc.Stats().AllocatedBytes.All.Current)
					if stage == 3 {
						_, err := evaluate(m.Forward)
						require.ErrorContains(r.t, err, "its value is sharded (ZeRO 3)")
						var e *autograd.ParameterError
						require.ErrorAs(r.t, err, &e)
						require.ErrorContains(r.t, m.To(r.dev), "its value is sharded", "it would begin anew")
					}
					var want []float64
					if err := d.Whole(func() (err error) { want, err = evaluate(m.Forward); return err }); err != nil {
						return err
					}
					require.Equal(r.t, want, have)
					require.Equal(r.t, held, r.alloc.Stats().AllocatedBytes.All.Current)
					if err := d.Unshard(); err != nil {
						return err
					}
					have, err = evaluate(m.Forward)
					require.Equal(r.t, want, have)
					return err
				})
			})
		})
	}
}

// What a program can do with graphs: two forward passes before two backward passes, two passes over one graph, and none.
func TestRun_OfSeveralGraphsAndPasses(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			all := ranks(t, 2)
			grads := func(d *parallel.DataParallel) (sum float64) {
				for _, p := range d.Parameters() {
					v, err := p.Grad().Float64s()
					require.NoError(t, err)
					for _, x := range v {
						sum += x
					}
				}
				return sum
			}
			for i, err := range together(all, func(r *rank) error {
				m := newTied(false, false)
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					if err := r.backward(d, inputs); err != nil {
						return err
					}
					one := grads(d)
					if err := r.backward(d, inputs); err != nil {
						return err
					}
					require.InDelta(r.t, 2*one, grads(d), 1e-4, "gradients add up")
					d.ZeroGrad()
					g, x := r.graph(2, inputs)
					h, y := r.graph(2, inputs)
					defer g.Release()
					defer h.Release()
					a, b := d.Forward(x).Square().Mean(nil, false), d.Forward(y).Square().Mean(nil, false)
					if err := errors.Join(a.Backward(autograd.RetainGraph()), b.Backward(), a.Backward()); err != nil {
						return err
					}
					require.InDelta(r.t, 3*one, grads(d), 1e-4)
					d.ZeroGrad()
					k, z := r.graph(2, inputs)
					d.Forward(z)
					k.Release()
					if err := r.backward(d, inputs); err != nil {
						return err
					}
					require.InDelta(r.t, one, grads(d), 1e-4)
					return nil
				})
			}) {
				require.NoError(t, err, "rank %d", i)
			}
			requireNothingKept(t, all)
		})
	}
}

// repeated uses one layer in two checkpointed regions: its gradient comes in two parts.
type repeated struct {
	nn.Base
	In, Again *nn.LinearLayer
	Out       *nn.LinearLayer
}

func (m *repeated) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable {
		again := nn.Checkpointed(m.Again)
		return m.Out.Forward(again.Forward(again.Forward(m.In.Forward(x)).Tanh()))
	})
}

func TestGradientsInParts(t *testing.T) {
	model := func() nn.Layer {
		return nn.New(&repeated{In: nn.Linear(inputs, 16), Again: nn.Linear(16, 16), Out: nn.Linear(16, classes)})
	}
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			c := training{model: model, steps: 6, opt: sgd, options: []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(100, 100), parallel.GradientsInParts()}}
			requireClose(t, single(t, c), trained(t, 2, c), 2e-5)
			for _, err := range together(ranks(t, 2), func(r *rank) error {
				return withModel(r, model(), []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(100, 100)}, func(d *parallel.DataParallel) error {
					return r.backward(d, inputs)
				})
			}) {
				require.ErrorContains(t, err, "ask for GradientsInParts")
			}
		})
	}
}

// With ZeRO 1 and 2 each rank has its part of the last update alone: a model that mixes it with old values is not to be read.
func TestClose_AfterAnUpdateLeavesNoMixture(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				m := newTied(false, false)
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					opt := optim.SGD(d.Parameters(), optim.LR(0.1))
					defer opt.Release()
					if err := errors.Join(r.backward(d, inputs), opt.Step()); err != nil {
						return err
					}
					opt.ZeroGrad()
					err := d.Close()
					_, read := r.evaluate(m.Forward)
					if stage == 0 {
						require.NoError(r.t, read)
					} else {
						require.ErrorContains(r.t, read, "Close was called without Unshard")
					}
					return err
				})
			})
		})
	}
}

// A forward pass that fails on one rank ends the group: the others are told at once, and not when they have waited for its gradients.
func TestRun_ThatFailsEndsTheGroup(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			all := ranks(t, 2)
			errs := together(all, func(r *rank) error {
				m := newTied(false, false)
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					if r.comm.Rank() == 0 {
						return r.backward(d, inputs)
					}
					g, x := r.graph(2, inputs)
					defer g.Release()
					wrong := d.Run(g, func() *autograd.Variable { return m.Forward(x).Reshape(7) })
					return wrong.Sum(nil, false).Backward()
				})
			})
			require.ErrorContains(t, errs[0], "rank 1")
			require.ErrorContains(t, errs[0], "Reshape")
			require.ErrorContains(t, errs[1], "Reshape")
			requireNothingKept(t, all)
		})
	}
}

// Ranks that gather different units of one size would train with each other's parameters.
func TestZeRO3_RanksThatGatherDifferentUnitsAreTold(t *testing.T) {
	all := ranks(t, 2)
	for _, err := range together(all, func(r *rank) error {
		m := newTwo()
		return withModel(r, m, []parallel.Option{parallel.ZeRO(3)}, func(d *parallel.DataParallel) error {
			g, x := r.graph(2, 16)
			defer g.Release()
			only := m.A
			if r.comm.Rank() == 1 {
				only = m.B
			}
			_, err := d.Run(g, func() *autograd.Variable { return only.Forward(x) }).Item()
			return err
		})
	}) {
		require.ErrorIs(t, err, comm.ErrMismatch)
		require.ErrorContains(t, err, "all-gather of unit 0")
		require.ErrorContains(t, err, "all-gather of unit 1")
	}
	requireNothingKept(t, all)
}

// A program with the stage as a flag gives Units with all of them, and hears with all of them of what is no module of the model.
func TestUnits_AreCheckedWithAllStages(t *testing.T) {
	for stage := range 4 {
		for _, mine := range []bool{false, true} {
			all := ranks(t, 2)
			for i, err := range together(all, func(r *rank) error {
				m, unit := newScaled(), nn.Linear(2, 2)
				if mine {
					unit = m.B
				}
				opts := []parallel.Option{parallel.ZeRO(stage), parallel.Units(unit)}
				_, err := parallel.Predict(m, tensor.Float32, 0, 2, 0, opts...)
				return errors.Join(err, withModel(r, m, opts, func(d *parallel.DataParallel) error {
					defer d.ZeroGrad()
					return r.backward(d, inputs)
				}))
			}) {
				if mine {
					require.NoError(t, err, "ZeRO %d, rank %d", stage, i)
				} else {
					require.ErrorContains(t, err, "unit 0, a *nn.LinearLayer, is no module of the model", "ZeRO %d, rank %d", stage, i)
				}
			}
			requireNothingKept(t, all)
		}
	}
}
