package memreport_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
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
		require.NoError(t, p.gradients())
		rep, err := memreport.Measure(p.dev, p.gradients, memreport.WithAllocator(p.alloc), memreport.WithModel(p.model), memreport.WithOptimizer(p.opt))
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

// Without it the report says how much of other there is, and what would tell.
func TestMeasure_WithoutOptimizer_HintsAtWhatWasThereBefore(t *testing.T) {
	p := mlp(newRig(t, sim.New(device.GiB)), adam)
	defer p.release()
	require.NoError(t, p.step())
	p.opt.ZeroGrad()
	none := func() error { return nil }
	measure := func(f func() error, opts ...memreport.Option) *memreport.Report {
		rep, err := memreport.Measure(p.dev, f, append(opts, memreport.WithAllocator(p.alloc))...)
		require.NoError(t, err)
		return rep
	}
	rep := measure(none, memreport.WithModel(p.model))
	require.GreaterOrEqual(t, rep.AtPeak.Other, p.opt.StateBytes())
	want := "Of other and workspace, " + device.FormatBytes(rep.AtPeak.Other) + " were there before the recording began: memreport.WithOptimizer names optimizer state, where no step is recorded."
	require.Equal(t, want, rep.Hint)
	require.Contains(t, rep.String(), "\n"+want+"\n")
	rep = measure(none)
	require.Contains(t, rep.Hint, "memreport.WithOptimizer names optimizer state, where no step is recorded, and memreport.WithModel names parameters, where no graph uses them.")
	require.Empty(t, measure(none, memreport.WithModel(p.model), memreport.WithOptimizer(p.opt)).Hint)
	require.Empty(t, measure(p.step2).Hint, "the step tells")

	b, err := p.alloc.Alloc(64*device.MiB, p.dev.DefaultStream())
	require.NoError(t, err)
	require.Contains(t, measure(p.step2).Hint, "Of other and workspace, 64MiB were")
	require.NoError(t, p.alloc.Free(b))
	rep = measure(func() error {
		b, err := p.alloc.Alloc(64*device.MiB, p.dev.DefaultStream())
		if err != nil {
			return err
		}
		return p.alloc.Free(b)
	}, memreport.WithModel(p.model), memreport.WithOptimizer(p.opt))
	require.GreaterOrEqual(t, rep.AtPeak.Other, 64*device.MiB)
	require.Empty(t, rep.Hint, "it came later, and is what it is")
}

type stateful interface {
	StateDict() (optim.StateDict, error)
	LoadStateDict(d optim.StateDict) error
}

// State that is loaded is state, though no step was taken.
func TestMeasure_TellsStateThatIsLoaded(t *testing.T) {
	for name, opt := range map[string]func([]*autograd.Parameter) optim.Optimizer{"Adam": adam, "LBFGS": lbfgs} {
		t.Run(name, func(t *testing.T) {
			p := mlp(newRig(t, host.New()), opt) // LBFGS keeps nothing where gradients are 0
			defer p.release()
			if l, ok := p.opt.(*optim.LBFGSOptimizer); ok {
				l.SetClosure(func() (float64, error) { return 0, p.gradients() })
			}
			require.NoError(t, p.step())
			saved, err := p.opt.(stateful).StateDict()
			require.NoError(t, err)
			state := p.opt.StateBytes()
			fresh := opt(p.model.Parameters())
			defer fresh.Release()
			rep, err := memreport.Measure(p.dev, func() error { return fresh.(stateful).LoadStateDict(saved) }, memreport.WithAllocator(p.alloc),
				memreport.WithModel(p.model), memreport.WithOptimizer(p.opt))
			require.NoError(t, err)
			require.NotZero(t, fresh.StateBytes())
			require.Equal(t, state+fresh.StateBytes(), rep.AtPeak.OptimizerState)
			require.Equal(t, rep.Peak, rep.AtPeak.Total())
		})
	}
}

// What is made after the recording began can be told of as well.
func TestAdd_TellsModelsAndOptimizersMadeLater(t *testing.T) {
	r := newRig(t, sim.New(device.GiB))
	rec, err := memreport.Start(r.dev, memreport.WithAllocator(r.alloc))
	require.NoError(t, err)
	defer rec.Stop()
	p := mlp(r, adam)
	require.NoError(t, rec.Add(memreport.WithModel(p.model), nil, memreport.WithOptimizer(p.opt)))
	p.release() // before the recording ends, and before a graph has used it
	rep := rec.Stop()
	require.NotZero(t, rep.AtPeak.Parameters)
	require.Equal(t, rep.Peak, rep.AtPeak.Total())
	require.NoError(t, rec.Add(memreport.WithModel(p.model)), "it has ended")

	var argument *memory.ArgumentError
	require.ErrorAs(t, rec.Add(memreport.WithAllocator(r.alloc)), &argument)
	require.ErrorAs(t, rec.Add(memreport.WithOptimizer(foreign{})), &argument)
	require.ErrorAs(t, new(memreport.Recording).Add(), &argument)
	require.ErrorAs(t, (*memreport.Recording)(nil).Add(), &argument)
}

// gradients computes them.
func (p *program) gradients() error {
	g := autograd.NewGraph(p.dev, autograd.WithAllocator(p.alloc))
	defer g.Release()
	return p.model.Forward(g.Input(p.input)).Sum(nil, false).Backward()
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
