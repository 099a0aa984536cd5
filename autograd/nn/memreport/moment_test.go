package memreport_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

// The moment is told by what asked for the block that made the peak, in each pass.
func TestMeasure_SaysWhenThePeakWas(t *testing.T) {
	p := mlp(newRig(t, sim.New(device.GiB)), adam)
	defer p.release()
	for _, c := range []struct {
		f    func() error
		want memreport.Moment
		text string
	}{
		{func() error {
			g := autograd.NewGraph(p.dev, autograd.WithAllocator(p.alloc))
			defer g.Release()
			return p.model.Forward(g.Input(p.input)).Graph().Err()
		}, memreport.Moment{Pass: memreport.PassForward, Operation: "linear_bias", Module: "2"}, "in the forward pass, in linear_bias of 2"},
		{func() error {
			g := autograd.NewGraph(p.dev, autograd.WithAllocator(p.alloc))
			defer g.Release()
			if err := p.model.Forward(g.Input(p.input)).Sum(nil, false).Backward(); err != nil {
				return err
			}
			p.opt.ZeroGrad()
			return nil
		}, memreport.Moment{Pass: memreport.PassBackward, Operation: "linear_bias", Module: "0"}, "in the backward pass, in linear_bias of 0"},
		{func() error { return p.step() }, memreport.Moment{Pass: memreport.PassOptimizer, Operation: "Adam", Module: "2"}, "in the optimizer's step, in Adam of 2"},
		{func() error { return nil }, memreport.Moment{Pass: memreport.PassBeginning}, "at the beginning"},
		{func() error {
			x, err := tensor.Zeros(p.exec, tensor.Float32, 10)
			x.Release()
			return err
		}, memreport.Moment{Pass: memreport.PassOutside}, "outside of all operations"},
	} {
		rep, err := p.measure(c.f)
		require.NoError(t, err)
		require.Equal(t, c.want, rep.PeakAt, c.text)
		require.Equal(t, c.text, rep.PeakAt.String())
		require.Contains(t, rep.String(), "The peak was "+c.text+"; ")
	}
}

// What a checkpoint computes once more is not the forward pass.
func TestMeasure_ThePeakOfACheckpointIsInBackward(t *testing.T) {
	r := newRig(t, sim.New(device.GiB))
	wide := nn.Sequential(nn.Linear(8, 512), nn.GELU(), nn.Linear(512, 8))
	p := r.program(nn.Sequential(nn.Linear(8, 8), nn.Checkpointed(wide)), sgd, values(64, 8), classes(64))
	defer p.release()
	require.NoError(t, p.step())
	rep, err := p.measure(func() error { return p.step() })
	require.NoError(t, err)
	require.Contains(t, []string{memreport.PassRecomputation, memreport.PassBackward}, rep.PeakAt.Pass, rep.PeakAt)
	require.Contains(t, rep.PeakAt.String(), "in the backward pass")
}

// Reserved is what the allocator had from the driver at the peak, with and without expandable segments.
func TestMeasure_SaysWhatWasReservedAtThePeak(t *testing.T) {
	for _, expandable := range []bool{false, true} {
		p := mlp(newRig(t, sim.New(device.GiB)), adam)
		c := p.alloc.Config()
		c.ExpandableSegments = expandable
		require.NoError(t, p.alloc.SetConfig(c))
		for range 2 {
			var at int64
			rep, err := p.measure(func() error {
				big, err := tensor.Zeros(p.exec, tensor.Float32, 10<<18)
				if err != nil {
					return err
				}
				at = p.alloc.Stats().ReservedBytes.All.Current
				big.Release()
				if err := p.alloc.EmptyCache(); err != nil {
					return err
				}
				return p.step()
			})
			require.NoError(t, err)
			require.EqualValues(t, at, rep.Reserved)
			require.Greater(t, rep.Reserved, rep.Peak)
			require.Less(t, uint64(p.alloc.Stats().ReservedBytes.All.Current), rep.Reserved)
		}
		p.release()
	}
}

// owner is a model with an operation, and a parameter, of its own.
type owner struct {
	nn.Base
	Scale *autograd.Parameter
	First *nn.LinearLayer
}

func (m *owner) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable { return m.First.Forward(x).Mul(g.Param(m.Scale)) })
}

// What the model does itself is told from what no module does, and the operations of each module add up to the module.
func TestMeasure_TheModelItselfIsNotOutside(t *testing.T) {
	r := newRig(t, sim.New(device.GiB))
	model := nn.New(&owner{Scale: autograd.DeclareParameter("scale", nn.Ones, 16), First: nn.Linear(64, 16)})
	p := r.program(model, adam, values(32, 64), classes(32))
	defer p.release()
	rep, err := p.measure(func() error { return p.step() })
	require.NoError(t, err)
	requireExact(t, rep, p.peak())
	rows := map[string]memreport.Row{}
	for _, row := range rep.Modules {
		rows[row.Name()] = row
	}
	own, outside := rows["(model)"], rows["(outside)"]
	require.True(t, own.Model)
	require.EqualValues(t, 512, own.AtPeak.Parameters)
	require.EqualValues(t, 1024, own.AtPeak.OptimizerState, "that of its parameter is its own too")
	require.NotZero(t, own.Allocated)
	require.Zero(t, outside.AtPeak.Parameters)
	require.NotZero(t, outside.AtPeak.Inputs)
	for _, module := range rep.Modules {
		var sum memreport.Row
		var peak uint64
		for _, row := range rep.Breakdown {
			if row.Module == module.Module && row.Model == module.Model {
				sum.Allocated += row.Allocated
				sum.Allocations += row.Allocations
				sum.Freed += row.Freed
				sum.Saved += row.Saved
				peak += row.AtPeak.Total()
			}
		}
		require.Equal(t, []uint64{module.Allocations, module.Allocated, module.Freed, module.Saved, module.AtPeak.Total()},
			[]uint64{sum.Allocations, sum.Allocated, sum.Freed, sum.Saved, peak}, module.Name())
	}
	require.True(t, slices.ContainsFunc(rep.Breakdown, func(r memreport.Row) bool { return r.Model && r.Operation == "mul" && !r.Backward }))
	require.Contains(t, rep.String(), "largest modules")
}
