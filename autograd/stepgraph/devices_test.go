package stepgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Where nothing is captured a step is the same program, with the numbers of a program without the step.
func TestStep_RunsEagerlyWhereNothingIsCaptured(t *testing.T) {
	for name, dev := range map[string]device.Device{"host": host.New(), "sim": sim.New(1 << 30)} {
		t.Run(name, func(t *testing.T) {
			r, plain := newTraining(t, dev, adamW), newTraining(t, dev, adamW)
			require.False(t, r.step.Captures())
			for turn := range 6 {
				got := r.take(turn)
				x, y := plain.batch(turn, rows)
				g := autograd.NewGraph(dev, autograd.WithGenerator(plain.gen))
				out, err := plain.run(g, []*autograd.Variable{g.Input(x), g.Input(y)})
				require.NoError(t, err)
				want, err := out[0].Item()
				require.NoError(t, err)
				g.Release()
				plain.opt.ZeroGrad()
				x.Release()
				y.Release()
				require.Equal(t, want, got)
			}
			require.Equal(t, plain.state(), r.state())
			require.Equal(t, "step: 6 eager runs, 0 replays, 0 graphs", r.step.String())
			r.release()
			plain.release()
			nothingLeft(t, dev)
			require.NoError(t, dev.Close())
		})
	}
}

// Inputs may be on another device, as a loader's are.
func TestStep_TakesInputsOfOtherDevices(t *testing.T) {
	dev, cpu := emulated(t), host.New()
	captured, eager := newTraining(t, dev, adamW), newTraining(t, dev, adamW)
	from := &training{t: t, dev: cpu}
	for turn := range 6 {
		want, err := eager.try(turn, rows, eager.step.Eager)
		require.NoError(t, err)
		x, y := from.batch(turn, rows)
		out, err := captured.step.Run(x, y)
		require.NoError(t, err)
		got, err := out[0].Item()
		require.NoError(t, err)
		require.Equal(t, want, got)
		_, err = eager.step.Eager(x, y)
		require.NoError(t, err)
		_, err = captured.step.Eager(x, y)
		require.NoError(t, err)
		x.Release()
		y.Release()
		require.Equal(t, eager.state(), captured.state())
	}
	require.Equal(t, 3, captured.step.Stats().Replays)
	captured.release()
	eager.release()
	nothingLeft(t, dev)
	require.NoError(t, memory.Drop(cpu))
	require.NoError(t, cpu.Close())
}

// A panic of the function passes through, while the step is captured too, and nothing is lost.
func TestStep_PanicsPassThrough(t *testing.T) {
	dev := emulated(t)
	r := newTraining(t, dev, adamW)
	panics := false
	inner := r.run
	require.NoError(t, r.step.Close())
	var err error
	r.step, err = stepgraph.New(dev, func(g *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error) {
		out, err := inner(g, in)
		if panics {
			panic("enough")
		}
		return out, err
	}, stepgraph.Modules(r.model), stepgraph.WithGenerator(r.gen))
	require.NoError(t, err)
	for turn := range 3 {
		r.take(turn)
	}
	before := r.state()
	x, y := r.batch(3, rows)
	panics = true
	require.PanicsWithValue(t, "enough", func() { _, _ = r.step.Run(x, y) })
	panics = false
	require.Equal(t, before, r.state())
	_, err = r.step.Run(x, y)
	require.NoError(t, err)
	require.Equal(t, 1, r.step.Stats().Replays)
	x.Release()
	y.Release()
	r.release()
	nothingLeft(t, dev)
}

func TestNew_RefusesWhatIsNotThere(t *testing.T) {
	dev := host.New()
	f := func(*autograd.Graph, []*autograd.Variable) ([]*autograd.Variable, error) { return nil, nil }
	var typed *stepgraph.Error
	_, err := stepgraph.New(nil, f)
	require.ErrorAs(t, err, &typed)
	_, err = stepgraph.New(dev, nil)
	require.ErrorContains(t, err, "stepgraph: New: the function is nil")
	_, err = stepgraph.New(dev, f, stepgraph.Modules(nil))
	require.ErrorContains(t, err, "module 0 is nil")
	s, err := stepgraph.New(dev, f, nil)
	require.NoError(t, err)
	_, err = s.Run(nil)
	require.ErrorIs(t, err, tensor.ErrReleased)
	require.NoError(t, s.Close())
	require.NoError(t, (*stepgraph.Step)(nil).Close())
	_, err = new(stepgraph.Step).Run()
	require.ErrorAs(t, err, &typed)
	require.NoError(t, memory.Drop(dev))
	require.NoError(t, dev.Close())
}
