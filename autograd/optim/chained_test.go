package optim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/optim"
)

// A program's own optimizer has its rates in variables.
func ExampleRates() {
	lr := 0.1
	schedule := optim.CyclicLR(optim.Rates(&lr), []float64{0.1}, []float64{0.5}, 2, optim.KeepMomentum())
	for range 6 {
		fmt.Printf("%.1f ", lr)
		if err := schedule.Step(); err != nil {
			fmt.Println(err)
		}
	}
	// Output: 0.1 0.3 0.5 0.3 0.1 0.3
}

func TestChainedScheduler_RefusesWhatDoesNotMultiply(t *testing.T) {
	o, other := optim.SGD(nil, optim.LR(0.5)), optim.SGD(nil)
	for name, s := range map[string]*optim.Schedule{
		"nothing": optim.ChainedScheduler(o), "nil": optim.ChainedScheduler(o, (*optim.Schedule)(nil)),
		"lambda":  optim.ChainedScheduler(o, optim.LambdaLR(o, func(int) float64 { return 1 })),
		"cosine":  optim.ChainedScheduler(o, optim.CosineAnnealingLR(o, 3, 0.1)),
		"another": optim.ChainedScheduler(o, optim.StepLR(other, 1, 0.1)),
		"bad":     optim.ChainedScheduler(o, optim.StepLR(o, 0, 0.1)),
	} {
		require.ErrorIs(t, s.Step(), optim.ErrInvalid, name)
	}
	require.InDelta(t, 0.5, o.LR(0), 0)
	both := optim.ChainedScheduler(o, optim.ChainedScheduler(o, optim.ExponentialLR(o, 0.5)), optim.ExponentialLR(o, 0.5))
	require.NoError(t, both.Step())
	require.InDelta(t, 0.125, o.LR(0), 0)
}

func TestMultiplicativeLR_GoesOnFromAState(t *testing.T) {
	o := optim.SGD(nil, optim.LR(1))
	calls := 0
	s := optim.MultiplicativeLR(o, func(epoch int) float64 { calls++; return 1 / float64(epoch) })
	for range 4 {
		require.NoError(t, s.Step())
	}
	require.Equal(t, 4, calls, "once an epoch")
	require.InDelta(t, 1.0/24, o.LR(0), 1e-15)
	st, err := s.State()
	require.NoError(t, err)
	st.LastEpoch = 2
	require.NoError(t, s.LoadState(st))
	require.InDelta(t, 0.5, o.LR(0), 0)
	st.LastEpoch = 1 << 40
	require.ErrorIs(t, s.LoadState(st), optim.ErrInvalid, "it would never end")
	require.ErrorIs(t, optim.MultiplicativeLR(o).Err(), optim.ErrInvalid)
	require.ErrorIs(t, optim.MultiplicativeLR(o, nil).Err(), optim.ErrInvalid)
}

func TestCyclicLR_RefusesGroupsWithoutMomentum(t *testing.T) {
	o := optim.SGD(nil, optim.LR(0.5))
	one := []float64{1}
	require.ErrorIs(t, optim.CyclicLR(o, one, one, 2).Err(), optim.ErrInvalid)
	require.ErrorIs(t, optim.CyclicLR(o, one, one, 0, optim.KeepMomentum()).Err(), optim.ErrInvalid)
	require.ErrorIs(t, optim.CyclicLR(o, one, one, 2, optim.StepsDown(0), optim.KeepMomentum()).Err(), optim.ErrInvalid)
	require.ErrorIs(t, optim.CyclicLR(o, one, []float64{1, 2}, 2, optim.KeepMomentum()).Err(), optim.ErrInvalid)
	require.NoError(t, optim.CyclicLR(optim.Adam(nil), one, one, 2).Err(), "the first of the betas")
	for _, momenta := range [][2]float64{{0, 0.5}, {1, 0.5}, {0.5, 0}, {0.5, 1}} {
		require.ErrorIs(t, optim.CyclicLR(optim.Adam(nil), one, one, 2, optim.CyclicMomentum(momenta[0], momenta[1])).Err(), optim.ErrInvalid, momenta)
	}
}

func TestRates_OfNothing(t *testing.T) {
	r := optim.Rates(nil)
	require.NoError(t, optim.StepLR(r, 1, 0.1).Step())
	require.Zero(t, r.LR(3)+r.InitialLR(-1)+r.Momentum(0))
	r.SetMomentum(0.5, 0)
	require.Zero(t, optim.Rates().Groups())
}
