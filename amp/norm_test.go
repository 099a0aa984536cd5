package amp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

// normed is a norm before a linear layer, beside a residual stream.
type normed struct {
	*rig
	norm   *nn.LayerNormLayer
	rms    *nn.RMSNormLayer
	linear *nn.LinearLayer
	x      *autograd.Parameter
}

func newNormed(t *testing.T, r *rig) *normed {
	n := &normed{rig: r, norm: nn.LayerNorm([]int{16}), rms: nn.RMSNorm([]int{16}), linear: nn.Linear(16, 16)}
	gen := tensor.NewGenerator(1)
	for _, m := range []nn.Layer{n.norm, n.rms, n.linear} {
		require.NoError(t, m.To(r.dev, nn.WithGenerator(gen), nn.WithAllocator(r.alloc)))
		t.Cleanup(m.Release)
	}
	x, err := tensor.RandN(r.exec, gen, tensor.Float32, 8, 16)
	require.NoError(t, err)
	n.x = autograd.NewParameter("x", x)
	t.Cleanup(n.x.Release)
	return n
}

// gradients are those of all parameters, and the loss before them.
func (n *normed) gradients(t *testing.T, o autograd.Option, norm func(x *autograd.Variable) *autograd.Variable) (all []float64) {
	t.Helper()
	g := n.graph(o)
	defer g.Release()
	x := g.Param(n.x).MulScalar(1)
	loss := x.Add(n.linear.Forward(norm(x))).Square().Sum(nil, false)
	require.NoError(t, loss.Backward())
	for _, p := range []*autograd.Parameter{n.x, n.norm.Weight, n.norm.Bias, n.rms.Weight, n.linear.Weight, n.linear.Bias} {
		if p.Grad() != nil {
			require.Equal(t, tensor.Float32, p.Grad().DType())
			all = append(all, values(t, p.Grad())...)
		}
		p.ZeroGrad()
	}
	return all
}

func TestBeforeLinear_ComputesWhatForwardDoes(t *testing.T) {
	n := newNormed(t, onHost(t))
	for name, f := range map[string][2]func(x *autograd.Variable) *autograd.Variable{
		"layer norm": {n.norm.Forward, n.norm.BeforeLinear}, "RMS norm": {n.rms.Forward, n.rms.BeforeLinear},
	} {
		for _, o := range []autograd.Option{amp.Autocast(tensor.BFloat16), amp.Autocast(tensor.Float16), amp.Autocast(tensor.BFloat16, amp.Enabled(false)), nil} {
			want, got := n.gradients(t, o, f[0]), n.gradients(t, o, f[1])
			require.Len(t, got, len(want), name)
			require.InDeltaSlice(t, want, got, 1e-5, name)
		}
	}
}

func TestBeforeLinear_NeedsNoConversionOfActivations(t *testing.T) {
	n := newNormed(t, onSim(t))
	launches := func(norm func(x *autograd.Variable) *autograd.Variable) uint64 {
		d := n.dev.(*sim.Device)
		before := d.Calls().Count[sim.CallSubmit]
		n.gradientsOnly(t, norm)
		return d.Calls().Count[sim.CallSubmit] - before
	}
	require.EqualValues(t, 1, launches(n.norm.Forward)-launches(n.norm.BeforeLinear), "the gradient is not converted in either way")
	var seen tensor.DType
	h, err := nn.RegisterForwardHook(n.norm, func(_ nn.Module, _, y *autograd.Variable) (*autograd.Variable, error) {
		seen = y.DType()
		return nil, nil
	})
	require.NoError(t, err)
	n.gradientsOnly(t, n.norm.BeforeLinear)
	require.Equal(t, tensor.Float32, seen, "a hook sees what Forward returns")
	h.Remove()
}

func (n *normed) gradientsOnly(t *testing.T, norm func(x *autograd.Variable) *autograd.Variable) {
	g := n.graph(amp.Autocast(tensor.BFloat16))
	defer g.Release()
	x := g.Param(n.x).MulScalar(1)
	require.NoError(t, x.Add(n.linear.Forward(norm(x))).Sum(nil, false).Backward())
	for _, p := range []*autograd.Parameter{n.x, n.norm.Weight, n.norm.Bias, n.linear.Weight, n.linear.Bias} {
		p.ZeroGrad()
	}
}
