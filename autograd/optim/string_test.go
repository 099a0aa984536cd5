package optim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// An optimizer and a schedule print where they are.
func ExampleGrouped_String() {
	first, second := nn.Linear(784, 10), nn.Linear(10, 10)
	opt := optim.Adam(first.Parameters()).AddGroup(second.Parameters(), optim.LR(0.01))
	schedule := optim.StepLR(opt, 1, 0.5)
	fmt.Println(opt)
	if err := schedule.Step(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(opt)
	fmt.Println(schedule)
	// Output:
	// Adam: 2 groups, 4 parameters, lr 0.001 to 0.01, 0 steps
	// Adam: 2 groups, 4 parameters, lr 0.0005 to 0.005, 0 steps
	// StepLR: epoch 1
}

func TestString_CountsSteps(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
	opt, counted := optim.SGD(ps), optim.AdamW(ps, optim.Capturable())
	defer opt.Release()
	defer counted.Release()
	for n, both := range []bool{false, true} {
		setGradient(t, e, ps[0], 1, n)
		if both {
			setGradient(t, e, ps[1], 1, n)
		}
		require.NoError(t, opt.Step())
		require.NoError(t, counted.Step())
	}
	require.Equal(t, "SGD: 1 group, 2 parameters, lr 0.001, 2 steps", opt.String())
	require.Equal(t, "AdamW: 1 group, 2 parameters, lr 0.001", counted.String(), "the count is on the device")
	require.Equal(t, "{"+opt.String()+"}", fmt.Sprintf("%v", struct{ Optimizer optim.Optimizer }{opt}))
	opt.Release()
	counted.Release()
	require.Equal(t, "SGD: 1 group, 2 parameters, lr 0.001, 0 steps", opt.String())
	require.Equal(t, "AdamW: 1 group, 2 parameters, lr 0.001, 0 steps", counted.String())
}

func TestString_OfWhatCannotBeUsed(t *testing.T) {
	require.Equal(t, "optimizer (nil)", (*optim.Grouped)(nil).String())
	require.Equal(t, "optimizer (nil)", new(optim.Grouped).String())
	require.Equal(t, "SGD: 1 group, 0 parameters, lr 0.001, 0 steps", optim.SGD(nil).String())
	require.Equal(t, "Lion, failed: optim: Lion: parameter 0 of group 0 is nil", optim.Lion([]*autograd.Parameter{nil}).String())
	require.Equal(t, "schedule (nil)", (*optim.Schedule)(nil).String())
	require.Equal(t, "schedule (nil)", new(optim.Schedule).String())
	require.Equal(t, "schedule (nil)", (*optim.PlateauSchedule)(nil).String())
	require.Equal(t, "schedule (nil)", new(optim.PlateauSchedule).String())
	require.Contains(t, optim.StepLR(nil, 1, 0.1).String(), "StepLR, failed: optim: StepLR: the optimizer is nil")
	require.Contains(t, optim.ReduceLROnPlateau(nil).String(), "ReduceLROnPlateau, failed: optim: ReduceLROnPlateau: the optimizer is nil")
	require.Equal(t, "ReduceLROnPlateau: epoch 0", optim.ReduceLROnPlateau(optim.SGD(nil)).String())
}
