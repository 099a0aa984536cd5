package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// kernelOf is a parameter of two kernels of 3 channels.
func kernelOf(t *testing.T, e tensor.Exec) *autograd.Parameter {
	t.Helper()
	x, err := param(t, e, 0, 36, tensor.Float32).Tensor().Reshape(2, 3, 2, 3)
	require.NoError(t, err)
	p := autograd.NewParameter("p", x)
	t.Cleanup(p.Release)
	return p
}

// bring gives the value of a parameter another memory format, as To does.
func bring(t *testing.T, p *autograd.Parameter, f tensor.MemoryFormat) {
	t.Helper()
	m, err := p.Move(p.Tensor().Exec(), 0)
	require.NoError(t, err)
	defer m.Release()
	require.NoError(t, m.InFormat(f))
	m.Commit()
}

func imageGradient(t *testing.T, e tensor.Exec, p *autograd.Parameter, step int) {
	t.Helper()
	flat := param(t, e, step, 36, tensor.Float32)
	g, err := flat.Tensor().Reshape(2, 3, 2, 3)
	require.NoError(t, err)
	p.ZeroGrad()
	require.NoError(t, p.SetGrad(g))
}

// A model may change its memory format between steps: the state follows, and nothing else changes.
func TestStep_StateFollowsTheMemoryFormat(t *testing.T) {
	e, _ := newExec(t, host.New())
	for name, make := range map[string]func(ps params) *optim.Grouped{
		"momentum": func(ps params) *optim.Grouped { return optim.SGD(ps, optim.Momentum(0.9)) },
		"adam":     func(ps params) *optim.Grouped { return optim.Adam(ps) },
		"amsgrad":  func(ps params) *optim.Grouped { return optim.AdamW(ps, optim.AMSGrad()) },
		"adadelta": func(ps params) *optim.Grouped { return optim.Adadelta(ps) },
		"rprop":    func(ps params) *optim.Grouped { return optim.Rprop(ps) },
	} {
		a, b := kernelOf(t, e), kernelOf(t, e)
		stays, moves := make(params{a}), make(params{b})
		for step, f := range []tensor.MemoryFormat{tensor.ContiguousFormat, tensor.ChannelsLast, tensor.ChannelsLast, tensor.ContiguousFormat, tensor.ChannelsLast} {
			bring(t, b, f)
			imageGradient(t, e, a, step)
			imageGradient(t, e, b, step)
			require.NoError(t, stays.Step())
			require.NoError(t, moves.Step(), name)
			require.Equal(t, f, b.Tensor().MemoryFormat())
			require.Equal(t, floats(t, a.Tensor()), floats(t, b.Tensor()), "%s, step %d", name, step)
			want, got := dictOf(t, stays), dictOf(t, moves)
			for key, x := range want.State[0].Tensors {
				require.Equal(t, floats(t, x), floats(t, got.State[0].Tensors[key]), "%s, %s", name, key)
			}
		}
		stays.Release()
		moves.Release()
	}
}

// Where a state cannot be brought wholly the step changes nothing, and may be taken again.
func TestStep_FailsAtEveryCallThatBringsTheState(t *testing.T) {
	here := newPlace(t)
	p := kernelOf(t, here.exec)
	imageGradient(t, here.exec, p, 0)
	opt := optim.Adam(params{p})
	defer opt.Release()
	defer p.ZeroGrad()
	require.NoError(t, opt.Step())
	f := tensor.ContiguousFormat
	turn := func() { // the next call has all of the state to bring
		f = tensor.ChannelsLast - f
		bring(t, p, f)
	}
	turn()
	failures := failEach(t, []place{here}, opt.Step, turn)
	require.Greater(t, failures, 3)
}
