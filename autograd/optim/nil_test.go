package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

func TestNil_OptimizersOfSchedules(t *testing.T) {
	for name, s := range map[string]interface{ Step() error }{
		"StepLR":       optim.StepLR(nil, 1, 0.1),
		"LambdaLR":     optim.LambdaLR(nil, nil, nil),
		"OneCycleLR":   optim.OneCycleLR(nil, []float64{1, 2}, 3, nil),
		"SequentialLR": optim.SequentialLR((*optim.Grouped)(nil), []*optim.Schedule{nil}, nil),
		"no function":  optim.LambdaLR(optim.SGD(nil), nil),
	} {
		require.ErrorIs(t, s.Step(), optim.ErrInvalid, name)
	}
	require.ErrorIs(t, optim.ReduceLROnPlateau(nil, nil).Step(1), optim.ErrInvalid)
	require.NoError(t, optim.SGD(nil, nil).AddGroup(nil, nil).Err())
}

func TestStep_OfAnOptimizerOfNothing(t *testing.T) {
	opt := optim.SGD(nil)
	var invalid *optim.ConfigError
	for _, err := range []error{opt.Step(), opt.StepScaled(nil, nil)} {
		require.ErrorAs(t, err, &invalid)
		require.EqualError(t, err, "optim: SGD: the optimizer has an empty list of parameters")
	}
	require.NoError(t, opt.Err(), "groups may yet be added")
	e, _ := newExec(t, host.New())
	require.NoError(t, opt.AddGroup(nil).AddGroup(params{param(t, e, 0, 1, tensor.Float32)}).Step())

	opt = optim.SGD(nil)
	opt.StepInBackward()()
	require.ErrorAs(t, opt.Err(), &invalid, "groups that are added later are not concerned")
	for _, list := range []params{{nil}, {autograd.DeclareParameter("p", nn.Zeros, 1), nil}} {
		require.ErrorAs(t, optim.SGD(list).Err(), &invalid)
		require.ErrorContains(t, invalid, "is nil")
	}
}

func TestOptimizer_OfParametersThatCannotBeMade(t *testing.T) {
	l := nn.Linear(2, 3)
	l.Weight = nil
	var field *nn.ArgumentError
	require.ErrorAs(t, optim.Adam(l.Parameters()).Err(), &field)
	require.EqualError(t, optim.Adam(l.Parameters()).Err(), "optim: Adam: nn: parameter weight: the field is nil")
	require.ErrorAs(t, optim.Adam(nn.Sequential(nil).Parameters()).Step(), &field)
	twice := nn.Linear(2, 3)
	twice.RegisterParameter(autograd.DeclareParameter("bias", nn.Zeros, 1))
	var name *nn.NameError
	require.ErrorAs(t, optim.SGD(nil).AddGroup(twice.Parameters()).Err(), &name)
}

func TestStep_OfAParameterThatWasMovedNamesIt(t *testing.T) {
	e, _ := newExec(t, host.New())
	other, _ := newExec(t, host.New())
	p := param(t, e, 0, 1, tensor.Float32)
	with := func() {
		g, err := tensor.Ones(e, tensor.Float32, 1)
		require.NoError(t, err)
		require.NoError(t, p.SetGrad(g))
	}
	opt := optim.Adam(params{p})
	defer opt.Release()
	with()
	require.NoError(t, opt.Step())
	require.NoError(t, p.To(e, tensor.Float64))
	var types *tensor.DTypeError
	require.ErrorAs(t, opt.Step(), &types)
	require.NoError(t, p.To(other, tensor.Float32))
	var devices *tensor.DeviceError
	err := opt.Step()
	require.ErrorAs(t, err, &devices)
	require.ErrorContains(t, err, "parameter \"")
	require.ErrorContains(t, err, "make the optimizer after To")
	p.Release()
}

func TestStep_OfAGradientThatWasReleasedNamesTheParameter(t *testing.T) {
	e, _ := newExec(t, host.New())
	p := param(t, e, 0, 1, tensor.Float32)
	opt := optim.Adam(params{p})
	defer opt.Release()
	g := autograd.NewGraph(e.Device())
	defer g.Release()
	require.NoError(t, g.Param(p).Sum(nil, false).Backward())
	p.Grad().Release()
	err := opt.Step()
	require.ErrorIs(t, err, tensor.ErrReleased)
	require.ErrorContains(t, err, "optim: Adam: parameter \""+p.Name())
	p.ZeroGrad()
}
