package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// A step whose state does not fit changes nothing, whichever group it is of: the next one is the first.
func TestStep_TakesTheMemoryOfAllGroupsBeforeItChangesAParameter(t *testing.T) {
	e, alloc := newExec(t, host.New())
	p, q := param(t, e, 0, 1, tensor.Float32), param(t, e, 1, 6<<20, tensor.Float32)
	opt := optim.Adam(params{p}, optim.LR(0.1)).AddGroup(params{q}, optim.LR(0.1))
	defer opt.Release()
	for _, x := range []*autograd.Parameter{p, q} {
		grad, err := tensor.Ones(e, tensor.Float32, x.Shape()...)
		require.NoError(t, err)
		require.NoError(t, x.SetGrad(grad))
		defer x.ZeroGrad()
	}
	before := floats(t, p.Tensor())
	a := alloc
	a.SetMemoryLimit(uint64(a.Stats().ReservedBytes.All.Current))
	require.ErrorIs(t, opt.Step(), memory.ErrOutOfMemory)
	require.Equal(t, before, floats(t, p.Tensor()))
	a.SetMemoryLimit(0)
	require.NoError(t, opt.Step())
	require.InDelta(t, before[0]-0.1, floats(t, p.Tensor())[0], 1e-6)
}

func TestStep_RefusesAParameterThatIsNotContiguousByItsName(t *testing.T) {
	e, alloc := newExec(t, host.New())
	w, err := tensor.Arange(e, 0, 6, 1, tensor.Float32)
	require.NoError(t, err)
	defer w.Release()
	m, err := w.Reshape(2, 3)
	require.NoError(t, err)
	defer m.Release()
	turned, err := m.T()
	require.NoError(t, err)
	p := autograd.NewParameter("decoder.weight", turned)
	defer p.Release()
	grad, err := tensor.Ones(e, tensor.Float32, 3, 2)
	require.NoError(t, err)
	require.NoError(t, p.SetGrad(grad))
	opt := optim.Adam(params{p})
	base := alloc.Stats().AllocatedBytes.All.Current
	require.EqualError(t, opt.Step(), `optim: Adam: parameter "decoder.weight": tensor: Step: [3, 2]: the value has strides [1 3], and optimizers need it in a memory format without gaps: make the parameter of what Contiguous gives`)
	require.Equal(t, base, alloc.Stats().AllocatedBytes.All.Current, "no state is made")
}
