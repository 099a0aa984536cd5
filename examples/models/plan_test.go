package models_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/internal/stepplan"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// repeating is a model with what it trains on: images or vectors, or tokens if it has a vocabulary.
type repeating struct {
	model          func(t *testing.T) nn.Layer
	opt            func([]*autograd.Parameter) *optim.Grouped
	shape          []int
	vocab, classes int
	// above is how many pages of 2 MiB reserved memory is above reservedMost, as measured: what parameters and optimizer state leave unused of their pages is in pieces
	// that are too small for a step's blocks.
	above uint64
}

func mlp(width, batch int) repeating {
	return repeating{shape: []int{batch, 784}, classes: 10, opt: func(p []*autograd.Parameter) *optim.Grouped { return optim.Adam(p) },
		model: func(*testing.T) nn.Layer {
			return nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
		}}
}

func cnn(batch int, widths ...int) repeating {
	return repeating{shape: []int{batch, 3, 32, 32}, classes: 10, opt: func(p []*autograd.Parameter) *optim.Grouped { return optim.SGD(p, optim.LR(0.1), optim.Momentum(0.9)) },
		model: func(t *testing.T) nn.Layer {
			return resNet(t, models.ResNetConfig{Channels: 3, Classes: 10, Widths: widths, Blocks: 2})
		}}
}

func language(batch int, c models.GPTConfig) repeating {
	c.Dropout = 0.1
	return repeating{shape: []int{batch, c.Context}, vocab: c.Vocab, classes: c.Vocab, opt: func(p []*autograd.Parameter) *optim.Grouped { return optim.AdamW(p) },
		model: func(t *testing.T) nn.Layer { return gpt(t, c) }}
}

// except is r with what the allocator does not reach for it.
func (r repeating) except(above uint64) repeating {
	r.above = above
	return r
}

// training is what some steps came to.
type training struct {
	losses, params    []uint64         // bits; none on a device that does not compute
	steady            memory.Stats     // with peaks of the third step and those after it
	second, last      memory.PlanStats // after the second step and after the last
	leaves, allocated uint64           // what parameters and optimizer state hold after the last step, and what is allocated
}

// train takes six steps on a device of its own, which it closes.
func (r *repeating) train(t *testing.T, dev device.Device, planned bool) (out training) {
	t.Helper()
	defer func() { require.NoError(t, dev.Close()) }()
	defer func() { require.NoError(t, memory.Drop(dev), "blocks are left") }()
	alloc, plan := r.allocator(t, dev, planned)
	gen := tensor.NewGenerator(1)
	m := r.model(t)
	require.NoError(t, m.To(dev, nn.WithGenerator(gen)))
	defer m.Release()
	opt := r.opt(m.Parameters())
	defer opt.Release()
	for step := range 6 {
		if step == 2 {
			out.second = plan.Stats()
		}
		loss := r.step(t, m, opt, gen, dev, plan, func() {
			if step == 2 { // the second step has left what it took without the plan, which is now in force
				alloc.ResetPeakStats()
			}
		})
		out.losses = append(out.losses, math.Float64bits(loss))
	}
	out.steady, out.last, out.allocated = alloc.Stats(), plan.Stats(), uint64(alloc.Stats().AllocatedBytes.All.Current)
	out.leaves = opt.StateBytes()
	for _, n := range nn.NamedState(m) {
		out.leaves += n.Parameter.Tensor().StorageBytes()
		if dev.ID().Kind != device.Sim {
			v, err := n.Parameter.Tensor().Float64s()
			require.NoError(t, err)
			for _, x := range v {
				out.params = append(out.params, math.Float64bits(x))
			}
		}
	}
	opt.Release()
	m.Release()
	require.NoError(t, plan.Close())
	require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
	require.NoError(t, alloc.EmptyCache())
	require.Zero(t, alloc.Stats().ReservedBytes.All.Current)
	return out
}

// allocator is the device's, with the settings that go with a plan, which it has if planned.
func (r *repeating) allocator(t *testing.T, dev device.Device, planned bool) (alloc *memory.Caching, plan *memory.Plan) {
	t.Helper()
	a, err := memory.For(dev)
	require.NoError(t, err)
	c, err := memory.ParseConfig(stepplan.Settings)
	require.NoError(t, err)
	alloc = a.(*memory.Caching)
	require.NoError(t, alloc.SetConfig(c))
	if planned {
		plan, err = alloc.NewPlan(memory.PlanWait(time.Minute)) // placements shall not depend on how busy the machine is
		require.NoError(t, err)
	}
	return alloc, plan
}

// step takes a training step, calls forward after its forward pass, and returns the loss: 0 on a device that does not compute.
func (r *repeating) step(t *testing.T, m nn.Layer, opt *optim.Grouped, gen *tensor.Generator, dev device.Device, plan *memory.Plan, forward func()) (value float64) {
	t.Helper()
	g := autograd.NewGraph(dev, autograd.WithGenerator(gen), autograd.WithPlan(plan))
	defer g.Release()
	x, labels := r.batch(g)
	loss := g.Scope(func() *autograd.Variable {
		out := m.Forward(x)
		return out.Reshape(labels.Len(), out.Dim(-1)).CrossEntropy(labels)
	}).Keep()
	require.NoError(t, g.Err())
	forward()
	require.NoError(t, loss.Backward())
	value, err := loss.Item()
	require.NoError(t, err)
	require.NoError(t, opt.Step())
	opt.ZeroGrad()
	return value
}

func (r *repeating) batch(g *autograd.Graph) (x, labels *autograd.Variable) {
	n := r.shape[0]
	if r.vocab > 0 {
		n *= r.shape[1]
		x = autograd.FromSlice(g, numbers(n, 7, r.vocab), r.shape...)
	} else {
		x = g.RandN(tensor.Float32, r.shape...)
	}
	return x, autograd.FromSlice(g, numbers(n, 5, r.classes), n)
}

// numbers are n multiples of k below most.
func numbers(n, k, most int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i * k % most)
	}
	return list
}

// reservedMost is how much a plan may have reserved: 1.02 of the most that was active, and of small programs a page more, which is nearly
// nothing on the host.
func reservedMost(active int64, kind device.Kind) uint64 {
	most := uint64(1.02 * float64(active))
	if kind == device.Host {
		return most
	}
	return max(most, uint64(active)+page)
}

const page = 2 * device.MiB

// keeps checks what a plan promises for a program.
func (r *repeating) keeps(t *testing.T, out *training, kind device.Kind) {
	t.Helper()
	require.Equal(t, out.leaves, out.allocated, "between steps only parameters, buffers and optimizer state are held")
	active, reserved := out.steady.ActiveBytes.All.Peak, uint64(out.steady.ReservedBytes.All.Peak)
	most := reservedMost(active, kind)
	served, strays := out.last.Served-out.second.Served, out.last.Deviations()-out.second.Deviations()
	require.LessOrEqual(t, reserved, most+r.above*page, "%.4f of what was active", float64(reserved)/float64(active))
	require.Greater(t, served, uint64(4*20), "of four steps")
	require.Greater(t, served, 50*strays)
}

func TestPlan_TrainsToTheSameBits(t *testing.T) {
	for name, r := range map[string]repeating{
		"mlp":      mlp(512, 64),
		"cnn":      cnn(12, 32, 64),
		"gpt":      language(8, models.GPTConfig{Vocab: 512, Context: 64, Layers: 3, Width: 96, Heads: 3}),
		"gpt_ckpt": language(8, models.GPTConfig{Vocab: 512, Context: 64, Layers: 3, Width: 96, Heads: 3, Checkpoint: true}),
	} {
		t.Run(name, func(t *testing.T) {
			without, with := r.train(t, host.New(), false), r.train(t, host.New(), true)
			require.Equal(t, without.losses, with.losses)
			require.Equal(t, without.params, with.params)
			require.NotEqual(t, with.losses[0], with.losses[5], "it learns")
			r.keeps(t, &with, device.Host)
		})
	}
}

func TestPlan_ReservesLittleMoreThanIsActive(t *testing.T) {
	for name, r := range map[string]repeating{
		"mlp":      mlp(512, 256).except(1),
		"mlp_wide": mlp(4096, 256),
		"cnn":      cnn(64, 64, 128, 256, 512),
		"gpt":      language(8, models.GPTConfig{Vocab: 8192, Context: 256, Layers: 6, Width: 384, Heads: 6}),
		"gpt_ckpt": language(8, models.GPTConfig{Vocab: 8192, Context: 256, Layers: 6, Width: 384, Heads: 6, Checkpoint: true}),
	} {
		t.Run(name, func(t *testing.T) {
			out := r.train(t, sim.New(80*device.GiB), true)
			r.keeps(t, &out, device.Sim)
		})
	}
}
