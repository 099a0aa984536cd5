package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/optim"
)

func TestSetMomentum_RefusesZeroOnlyWhereThereIsMomentum(t *testing.T) {
	with := optim.SGD(nil, optim.Momentum(0.9))
	with.SetMomentum(0.5, 0)
	require.NoError(t, with.Err())
	with.SetMomentum(0, 0)
	require.ErrorIs(t, with.Err(), optim.ErrInvalid)
	require.Equal(t, 0.5, with.Momentum(0))
	without := optim.SGD(nil)
	without.SetMomentum(0, 0)
	require.NoError(t, without.Err())
}

func TestSchedule_GoesBackToItsBeginning(t *testing.T) {
	opt := optim.SGD(nil, optim.LR(1))
	s := optim.StepLR(opt, 1, 0.5)
	beginning, err := s.State()
	require.NoError(t, err)
	require.Zero(t, beginning.LastEpoch)
	for range 3 {
		require.NoError(t, s.Step())
	}
	require.Equal(t, 0.125, opt.LR(0))
	require.NoError(t, s.LoadState(beginning))
	require.Equal(t, 1.0, opt.LR(0))
	require.NoError(t, s.Step())
	require.Equal(t, 0.5, opt.LR(0))
}
