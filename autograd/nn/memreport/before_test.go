package memreport_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

func lbfgs(ps []*autograd.Parameter) optim.Optimizer { return optim.LBFGS(ps) }

// State and gradients that were made before the recording, with no step in it, are told as what they are.
func TestMeasure_WithOptimizer_TellsStateOfBefore(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		p := mlp(newRig(t, sim.New(device.GiB)), adam)
		if recorded { // then it has the label of the step that made it
			_, err := memreport.Measure(p.dev, p.step2, memreport.WithAllocator(p.alloc))
			require.NoError(t, err)
		} else {
			require.NoError(t, p.step())
		}
		p.opt.ZeroGrad()
		pass := func() error {
			g := autograd.NewGraph(p.dev, autograd.WithAllocator(p.alloc))
			defer g.Release()
			return p.model.Forward(g.Input(p.input)).Sum(nil, false).Backward()
		}
		require.NoError(t, pass())
		rep, err := memreport.Measure(p.dev, pass, memreport.WithAllocator(p.alloc), memreport.WithModel(p.model), memreport.WithOptimizer(p.opt))
		require.NoError(t, err)
		require.EqualValues(t, p.opt.StateBytes(), rep.AtPeak.OptimizerState)
		require.NotZero(t, rep.AtPeak.OptimizerState)
		require.Equal(t, rep.AtPeak.Total(), rep.Peak)
		for _, m := range rep.Modules {
			if m.AtPeak.Parameters > 0 {
				require.GreaterOrEqual(t, m.AtPeak.OptimizerState, m.AtPeak.Parameters, "in the module of its parameter: %s", m.Name())
			}
		}

		// And where nothing is done at all.
		for _, opts := range [][]memreport.Option{{memreport.WithModel(p.model)}, nil} {
			opts = append(opts, memreport.WithAllocator(p.alloc), memreport.WithOptimizer(p.opt))
			rep, err = memreport.Measure(p.dev, func() error { return nil }, opts...)
			require.NoError(t, err)
			require.EqualValues(t, p.opt.StateBytes(), rep.AtPeak.OptimizerState)
			require.NotZero(t, rep.AtPeak.Gradients)
			require.Equal(t, rep.AtPeak.Parameters, rep.AtPeak.Gradients)
		}
		p.release()
	}
}

func (p *program) step2() error { return p.step() }

// embedded is an optimizer around another one; foreign is none of package optim.
type (
	embedded struct{ *optim.Grouped }
	foreign  struct{ optim.Optimizer }
)

func TestStart_RefusesOtherDevicesAndOptimizers(t *testing.T) {
	p := mlp(newRig(t, sim.New(device.GiB)), lbfgs)
	defer p.release()
	none := func() error { return nil }
	_, err := memreport.Measure(p.dev, none, memreport.WithAllocator(p.alloc), memreport.WithOptimizer(p.opt, embedded{}))
	require.NoError(t, err)
	var argument *memory.ArgumentError
	for _, o := range []memreport.Optimizer{nil, (*optim.Grouped)(nil), foreign{}} {
		_, err := memreport.Measure(p.dev, none, memreport.WithAllocator(p.alloc), memreport.WithOptimizer(o))
		require.ErrorAs(t, err, &argument)
	}

	other := sim.New(device.GiB)
	_, err = memreport.Measure(other, none, memreport.WithAllocator(p.alloc))
	require.ErrorAs(t, err, &argument)
	require.ErrorContains(t, err, other.ID().String())
	require.NoError(t, other.Close())
	_, err = memreport.Measure(other, none)
	require.ErrorIs(t, err, device.ErrClosed)
	require.NoError(t, memory.Drop(other))
}

func TestReport_TableHasNoControlCharacters(t *testing.T) {
	row := memreport.Row{Module: "a\x1b[31m\tb", Operation: "op\r\nrow", Allocated: 1, AtPeak: memreport.Categories{Other: 1}}
	r := &memreport.Report{Device: "sim:0\a", PeakAt: memreport.Moment{Pass: memreport.PassForward, Operation: "op\x00"}, Modules: []memreport.Row{row},
		Operations: []memreport.Row{{Operation: row.Operation}}, Breakdown: []memreport.Row{row}}
	text := r.String()
	require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }), "%q", text)
	require.Contains(t, text, `"a\x1b[31m\tb"`)
	require.Contains(t, text, `"op\r\nrow"`)
}
