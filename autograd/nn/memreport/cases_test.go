package memreport_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

func (r *rig) current() uint64 { return uint64(r.alloc.Stats().AllocatedBytes.All.Current) }
func (r *rig) peak() uint64    { return uint64(r.alloc.Stats().AllocatedBytes.All.Peak) }

// measure measures from now on.
func (p *program) measure(f func() error) (*memreport.Report, error) {
	p.alloc.ResetPeakStats()
	return memreport.Measure(p.dev, f, memreport.WithAllocator(p.alloc))
}

func TestMeasure_OnAnEmulatedGPU(t *testing.T) {
	dev, _ := emulatedtest.New(t)
	p := mlp(newRig(t, dev), adam)
	defer p.release()
	rep, err := p.measure(func() error { return p.step() })
	require.NoError(t, err)
	requireExact(t, rep, p.peak())
	require.Equal(t, p.opt.StateBytes(), rep.AtPeak.OptimizerState)
}

// Two graphs at a time are one account.
func TestMeasure_SeveralGraphs(t *testing.T) {
	p := mlp(newRig(t, sim.New(device.GiB)), sgd)
	defer p.release()
	rep, err := p.measure(func() error {
		outer := autograd.NewGraph(p.dev, autograd.WithAllocator(p.alloc))
		defer outer.Release()
		inner := autograd.NewGraph(p.dev, autograd.WithAllocator(p.alloc))
		defer inner.Release()
		x, y := p.model.Forward(outer.Input(p.input)), p.model.Forward(inner.Input(p.input))
		return errors.Join(y.Sum(nil, false).Backward(), x.Sum(nil, false).Backward())
	})
	require.NoError(t, err)
	p.opt.ZeroGrad()
	requireExact(t, rep, p.peak())
}

// What a checkpointed module computes again counts for it.
func TestMeasure_CheckpointsKeepModules(t *testing.T) {
	p := gpt(newRig(t, sim.New(device.GiB)), sgd)
	defer p.release()
	rep, err := p.measure(func() error { return p.step() })
	require.NoError(t, err)
	for _, path := range []string{"1.linear1", "2.self_attn", "3.norm2"} {
		i := slices.IndexFunc(rep.Modules, func(r memreport.Row) bool { return r.Module == path })
		require.GreaterOrEqual(t, i, 0, "%s: %s", path, rep)
		require.NotZero(t, rep.Modules[i].Saved, "%s: %s", path, rep)
		require.NotZero(t, rep.Modules[i].AtPeak.Parameters)
	}
}

// LBFGS keeps its state for all parameters at once, and calls the step itself.
func TestMeasure_LBFGS(t *testing.T) {
	p := mlp(newRig(t, host.New()), func(ps []*autograd.Parameter) optim.Optimizer { return optim.LBFGS(ps) })
	defer p.release()
	opt := p.opt.(*optim.LBFGSOptimizer)
	rep, err := p.measure(func() error {
		for range 2 {
			_, err := opt.StepClosure(func() (float64, error) {
				p.opt.ZeroGrad()
				g := autograd.NewGraph(p.dev, autograd.WithAllocator(p.alloc))
				defer g.Release()
				loss := p.model.Forward(g.Input(p.input)).CrossEntropy(g.Input(p.target)).Keep()
				if err := loss.Backward(); err != nil {
					return 0, err
				}
				return loss.Item()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	requireExact(t, rep, p.peak())
	require.NotZero(t, rep.AtPeak.OptimizerState)
	require.Zero(t, rep.AtPeak.Other)
}

// An error in the middle of a step gives a report of what was, and leaves nothing: no memory, no label, no recording.
func TestMeasure_OutOfMemoryLeavesNothing(t *testing.T) {
	dev := sim.New(device.GiB)
	m := nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.GELU(), nn.Flatten(1), nn.Linear(16*60*60, 10))
	p := newRig(t, dev).program(m, adam, values(64, 3, 64, 64), classes(64))
	before := p.current()
	reserved := uint64(p.alloc.Stats().ReservedBytes.All.Current)
	for failed := 0; ; failed++ {
		n := 0
		p.alloc.SetMemoryLimit(reserved + uint64(failed)*10*device.MiB)
		rep, err := p.measure(func() error { n++; return p.step() })
		require.Equal(t, 1, n)
		require.NotNil(t, rep)
		require.Equal(t, p.peak(), rep.Peak)
		require.Equal(t, rep.Peak, rep.AtPeak.Total())
		require.Equal(t, p.current(), rep.End)
		require.False(t, oplabel.Wanted())
		require.Zero(t, oplabel.Current())
		require.False(t, p.alloc.HistoryEnabled())
		p.opt.ZeroGrad()
		p.opt.Release()
		require.Equal(t, before, p.current())
		require.NoError(t, p.alloc.EmptyCache())
		if err == nil {
			require.Greater(t, failed, 5, "the step fails at several places")
			break
		}
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
	}
	p.release()
	require.Zero(t, p.current())
}

// A panic passes through, and ends the recording.
func TestMeasure_EndsWithAPanic(t *testing.T) {
	p := mlp(newRig(t, sim.New(device.GiB)), sgd)
	defer p.release()
	require.Panics(t, func() { _, _ = p.measure(func() error { panic("p") }) })
	require.False(t, oplabel.Wanted())
}

// One recording inside another sees the same.
func TestStart_NestedRecordings(t *testing.T) {
	p := mlp(newRig(t, sim.New(device.GiB)), sgd)
	defer p.release()
	var inner *memreport.Report
	outer, err := p.measure(func() (err error) {
		inner, err = memreport.Measure(p.dev, func() error { return p.step() }, memreport.WithAllocator(p.alloc))
		return err
	})
	require.NoError(t, err)
	require.Equal(t, outer.String(), inner.String())
}

func TestStart_RefusesWhatHasNoCache(t *testing.T) {
	dev := sim.New(device.GiB)
	direct := memory.NewDirect(dev)
	var argument *memory.ArgumentError
	_, err := memreport.Start(dev, memreport.WithAllocator(direct))
	require.ErrorAs(t, err, &argument)
	_, err = memreport.Start(nil)
	require.ErrorAs(t, err, &argument)
	_, err = memreport.Start(dev, memreport.WithAllocator((*memory.Caching)(nil)))
	require.ErrorAs(t, err, &argument)
	_, err = memreport.Measure(dev, nil)
	require.ErrorAs(t, err, &argument)
	require.False(t, oplabel.Wanted())
	var none *memreport.Report
	require.ErrorAs(t, none.WriteJSON(io.Discard), &argument)
	require.ErrorAs(t, none.WriteSVG(io.Discard), &argument)
	require.ErrorAs(t, new(memreport.Report).WriteTable(nil, 0), &argument)
	require.NotEmpty(t, none.String())
	require.Nil(t, new(memreport.Recording).Stop())
}

func TestReport_WritesJSONAndSVG(t *testing.T) {
	p := gpt(newRig(t, sim.New(device.GiB)), sgd)
	defer p.release()
	rep, err := p.measure(func() error { return p.step() })
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, rep.WriteJSON(&b))
	var back memreport.Report
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, *rep, back)
	for _, name := range []string{"peak_reserved_bytes", "peak_moment", "breakdown"} {
		require.Contains(t, b.String(), "\n  \""+name+"\"")
	}
	b.Reset()
	require.NoError(t, rep.WriteSVG(&b))
	for _, want := range []string{"prefers-color-scheme: dark", "allocated at the peak</title>", "each without the modules inside it", "100.0 %", ">3.self_attn<"} {
		require.Contains(t, b.String(), want)
	}
	for d := xml.NewDecoder(&b); err != io.EOF; {
		_, err = d.Token()
		require.True(t, err == nil || err == io.EOF, "%v", err)
	}
	var all, some bytes.Buffer
	require.NoError(t, rep.WriteTable(&all, 0))
	require.NoError(t, rep.WriteTable(&some, 3))
	require.Contains(t, some.String(), " more  ")
	require.NotContains(t, all.String(), " more  ")
}
