package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/optim"
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
