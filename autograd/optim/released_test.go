package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A parameter that was released is one that a model has replaced, or a model that To has not reached: a step of the others alone would
// train a part of the model in silence.
func TestStep_OfAReleasedParameterIsAnErrorAndChangesNothing(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
	opt := optim.Adam(ps[:1]).AddGroup(ps[1:])
	defer opt.Release()
	step := func() error {
		for i, p := range ps {
			if p.Tensor() != nil {
				setGradient(t, e, p, 1, i)
			}
		}
		return opt.Step()
	}
	require.NoError(t, step())
	ps[1].Release()
	before, err := ps[0].Tensor().Float64s()
	require.NoError(t, err)
	var missing *autograd.ParameterError
	require.ErrorAs(t, step(), &missing)
	require.EqualError(t, opt.Step(), `optim: Adam: parameter "p" [5] has no tensor: it was released, maybe because a model has replaced it, `+
		`or To was not called on the model; make optimizers after that`)
	after, err := ps[0].Tensor().Float64s()
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, 1, dictOf(t, opt).State[0].Step)
}
