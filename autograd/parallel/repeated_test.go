package parallel_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

// residual is a block of which some is checkpointed.
type residual struct {
	nn.Base
	Norm *nn.LayerNormLayer
	FFN  nn.Layer
}

const blockWidth = 24

func newResidual(ffn nn.Layer) *residual {
	return nn.New(&residual{Norm: nn.LayerNorm([]int{blockWidth}), FFN: ffn})
}

func (b *residual) Forward(x *autograd.Variable) *autograd.Variable {
	return b.Scope(x, func(*autograd.Graph) *autograd.Variable { return x.Add(b.FFN.Forward(b.Norm.Forward(x))) })
}

func feedForward() nn.Layer {
	return nn.Sequential(nn.Linear(blockWidth, 2*blockWidth), nn.ReLU(), nn.Linear(2*blockWidth, blockWidth))
}

// wrapped is a unit around a layer.
type wrapped struct {
	nn.Base
	Layer nn.Layer
}

func (m *wrapped) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable { return m.Layer.Forward(x) })
}

func around(l nn.Layer) nn.Layer { return nn.New(&wrapped{Layer: l}) }

// modelOf puts blocks between two layers.
func modelOf(blocks ...nn.Layer) *nn.SequentialModule {
	layers := append([]nn.Layer{nn.Linear(inputs, blockWidth)}, blocks...)
	return nn.Sequential(append(layers, nn.Linear(blockWidth, classes))...)
}

// repeatedModels have checkpoints in units, whose second runs do not begin at the unit's module.
var repeatedModels = map[string]struct {
	model func() *nn.SequentialModule
	opts  func(m *nn.SequentialModule) []parallel.Option
}{
	"a block's feed-forward part": {func() *nn.SequentialModule {
		return modelOf(newResidual(nn.Checkpointed(feedForward())), newResidual(nn.Checkpointed(feedForward())))
	}, nil},
	"the same, in parts": {func() *nn.SequentialModule {
		return modelOf(newResidual(nn.Checkpointed(feedForward())), newResidual(nn.Checkpointed(feedForward())))
	}, func(*nn.SequentialModule) []parallel.Option { return []parallel.Option{parallel.GradientsInParts()} }},
	"a layer of a unit": {func() *nn.SequentialModule {
		return modelOf(around(nn.Sequential(nn.Checkpointed(nn.Linear(blockWidth, blockWidth)), nn.Linear(blockWidth, blockWidth))))
	}, nil},
	"all of a unit": {func() *nn.SequentialModule {
		return modelOf(around(nn.Checkpointed(nn.Linear(blockWidth, blockWidth))), nn.Tanh())
	}, nil},
	"the model as the unit": {func() *nn.SequentialModule {
		return modelOf(newResidual(nn.Checkpointed(feedForward())), nn.Checkpointed(nn.Linear(blockWidth, blockWidth)))
	}, func(m *nn.SequentialModule) []parallel.Option { return []parallel.Option{parallel.Units(m)} }},
	"checkpoints in checkpoints": {func() *nn.SequentialModule {
		return modelOf(nn.Checkpointed(newResidual(nn.Checkpointed(feedForward()))), nn.Checkpointed(nn.Sequential(newResidual(nn.Checkpointed(feedForward())), newResidual(feedForward()))))
	}, nil},
	"some of it is a unit of its own": {func() *nn.SequentialModule {
		return modelOf(newResidual(nn.Checkpointed(feedForward())))
	}, func(m *nn.SequentialModule) []parallel.Option {
		block := m.At(1).(*residual)
		return []parallel.Option{parallel.Units(block, block.FFN.(*nn.CheckpointModule).Layer.(*nn.SequentialModule).At(2))}
	}},
	"a weight within and behind": {func() *nn.SequentialModule {
		a, b := nn.Linear(blockWidth, blockWidth), nn.Linear(blockWidth, blockWidth)
		a.Weight = b.Weight
		return modelOf(around(nn.Sequential(a, nn.Checkpointed(nn.Sequential(nn.Tanh(), b)))))
	}, nil},
	"a weight of two checkpoints, in parts": {func() *nn.SequentialModule {
		a, b := nn.Linear(blockWidth, blockWidth), nn.Linear(blockWidth, blockWidth)
		a.Weight = b.Weight
		return modelOf(around(nn.Sequential(nn.Checkpointed(a), nn.Tanh(), nn.Checkpointed(b))))
	}, func(*nn.SequentialModule) []parallel.Option { return []parallel.Option{parallel.GradientsInParts()} }},
}

// training of such a model on a rank, whose options need it.
func repeatedTraining(name string) training {
	c := training{steps: 4, opt: sgd, accumulate: 2, batch: 8}
	c.model = func() nn.Layer { return repeatedModels[name].model() }
	c.defaults()
	return c
}

func (c training) runOf(r *rank, name string) (result, error) {
	m := repeatedModels[name].model()
	c.model, c.options = func() nn.Layer { return m }, []parallel.Option{parallel.ZeRO(3)}
	if opts := repeatedModels[name].opts; opts != nil {
		c.options = append(c.options, opts(m)...)
	}
	return c.run(r)
}

// Such models train as in one process; their ranks hold what Predict says, and a rank on a simulated device has the peak of a real one.
func TestZeRO3_RunsCheckpointsInUnitsAgain(t *testing.T) {
	for name := range repeatedModels {
		t.Run(name, func(t *testing.T) {
			c, peaks, real := repeatedTraining(name), make([]int64, 2), make([]result, 2)
			c.watch = func(r *rank, d *parallel.DataParallel, _ *optim.Grouped, step int, when string) error {
				peaks[r.comm.Rank()] = r.alloc.Stats().AllocatedBytes.All.Peak
				if when != "step" {
					return nil
				}
				own := []parallel.Option{parallel.ZeRO(3)}
				if opts := repeatedModels[name].opts; opts != nil {
					own = append(own, opts(d.Module().(*nn.SequentialModule))...)
				}
				h, err := parallel.Predict(d.Module(), c.dtype, r.comm.Rank(), 2, 1, own...)
				if have := uint64(r.alloc.Stats().RequestedBytes.All.Current); err == nil && have != h.Total() {
					err = fmt.Errorf("step %d: %d bytes, predicted %d", step, have, h.Total())
				}
				return err
			}
			all := ranks(t, 2)
			for i, err := range together(all, func(r *rank) (err error) { real[r.comm.Rank()], err = c.runOf(r, name); return err }) {
				require.NoError(t, err, "rank %d", i)
			}
			requireNothingKept(t, all)
			require.Equal(t, real[0].values, real[1].values)
			for k := range real[0].losses {
				real[0].losses[k] = (real[0].losses[k] + real[1].losses[k]) / 2
			}
			requireClose(t, single(t, repeatedTraining(name)), real[0], 2e-5)
			measured := slices.Clone(peaks)
			for i := range 2 {
				r := newRank(t, sim.New(1<<30))
				var err error
				r.comm, err = comm.Simulated(r.dev, i, 2)
				require.NoError(t, err)
				_, err = c.runOf(r, name)
				require.NoError(t, err)
				require.NoError(t, r.comm.Close())
			}
			require.Equal(t, measured, peaks)
		})
	}
}

// A unit with checkpoints is gathered twice in a step, as any other, and two units are whole at most.
func TestZeRO3_GathersUnitsWithCheckpointsAsOthers(t *testing.T) {
	const depth = 5
	model := func(wrap func(nn.Layer) nn.Layer) *nn.SequentialModule {
		blocks := make([]nn.Layer, depth)
		for i := range blocks {
			blocks[i] = newResidual(wrap(feedForward()))
		}
		return modelOf(blocks...)
	}
	for i, err := range together(ranks(t, 2), func(r *rank) error {
		var calls [2]int64
		for k, wrap := range []func(nn.Layer) nn.Layer{around, func(l nn.Layer) nn.Layer { return nn.Checkpointed(l) }} {
			m := model(wrap)
			if err := withModel(r, m, []parallel.Option{parallel.ZeRO(3)}, func(d *parallel.DataParallel) error {
				most := 0
				for _, p := range m.Parameters() {
					p.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) {
						whole := map[string]bool{}
						for _, n := range nn.NamedParameters(m) {
							if n.Parameter.Tensor() != nil {
								whole[n.Name[:1]] = true
							}
						}
						most = max(most, len(whole))
						return nil, nil
					})
				}
				for range 2 {
					before := r.comm.Stats().AllGather.Calls
					if err := r.backward(d, inputs); err != nil {
						return err
					}
					calls[k] = r.comm.Stats().AllGather.Calls - before
					d.ZeroGrad()
				}
				require.LessOrEqual(r.t, most, 2)
				return nil
			}); err != nil {
				return err
			}
		}
		require.Equal(r.t, calls[0], calls[1])
		return nil
	}) {
		require.NoError(t, err, "rank %d", i)
	}
}

// Parameters that have changed since the first run of a checkpoint, in a unit or around one, are an error, as in one process.
func TestZeRO3_ACheckpointOfParametersThatHaveChangedIsRefused(t *testing.T) {
	for name, block := range map[string]func() nn.Layer{
		"in a unit":   func() nn.Layer { return newResidual(nn.Checkpointed(feedForward())) },
		"of the unit": func() nn.Layer { return nn.Checkpointed(newResidual(feedForward())) },
	} {
		t.Run(name, func(t *testing.T) {
			all := ranks(t, 2)
			for i, err := range together(all, func(r *rank) error {
				m := nn.Sequential(block())
				return withModel(r, m, []parallel.Option{parallel.ZeRO(3)}, func(d *parallel.DataParallel) error {
					defer d.ZeroGrad()
					opt := optim.SGD(d.Parameters(), optim.LR(0.1))
					if err := r.backward(d, blockWidth); err != nil {
						return err
					}
					g, x := r.graph(2, blockWidth)
					defer g.Release()
					loss := d.Forward(x).Square().Mean(nil, false)
					if err := opt.Step(); err != nil {
						return err
					}
					require.ErrorIs(r.t, loss.Backward(), autograd.ErrModified)
					return nil
				})
			}) {
				require.NoError(t, err, "rank %d", i)
			}
			requireNothingKept(t, all)
		})
	}
}
