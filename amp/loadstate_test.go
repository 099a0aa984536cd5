package amp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/tensor"
)

// badStates are states that no GradScaler has.
var badStates = []struct {
	spoil func(st *amp.State)
	want  amp.Misuse
}{
	{func(st *amp.State) { st.Scale = -1 }, amp.BadScale},
	{func(st *amp.State) { st.Scale = 0 }, amp.BadScale},
	{func(st *amp.State) { st.Scale = math.NaN() }, amp.BadScale},
	{func(st *amp.State) { st.Scale = math.Inf(1) }, amp.BadScale},
	{func(st *amp.State) { st.Scale = 1e300 }, amp.BadScale},
	{func(st *amp.State) { st.GrowthFactor = 1 }, amp.BadGrowth},
	{func(st *amp.State) { st.GrowthFactor = math.Inf(1) }, amp.BadGrowth},
	{func(st *amp.State) { st.BackoffFactor = -0.5 }, amp.BadBackoff},
	{func(st *amp.State) { st.BackoffFactor = 1 }, amp.BadBackoff},
	{func(st *amp.State) { st.GrowthInterval = 0 }, amp.BadInterval},
	{func(st *amp.State) { st.GrowthInterval = 1 << 40 }, amp.BadInterval},
	{func(st *amp.State) { st.GrowthTracker = -1 }, amp.BadTracker},
	{func(st *amp.State) { st.GrowthTracker = 1 << 31 }, amp.BadTracker},
}

func TestLoadState_RefusesWhatNoGradScalerHas_AndChangesNothing(t *testing.T) {
	r := onHost(t)
	for _, made := range []bool{false, true} {
		s := amp.NewGradScaler(amp.InitScale(8))
		defer s.Release()
		if made {
			x, err := s.ScaleTensor(r.full(4, tensor.Float32))
			require.NoError(t, err)
			x.Release()
		}
		before, err := s.State()
		require.NoError(t, err)
		for _, c := range badStates {
			st := before
			c.spoil(&st)
			require.ErrorIs(t, s.CheckState(st), c.want)
			require.ErrorIs(t, s.LoadState(st), c.want, "%+v", st)
			after, err := s.State()
			require.NoError(t, err)
			require.Equal(t, before, after)
		}
	}
}

func TestSetters_RefuseWhatNewGradScalerDoes(t *testing.T) {
	for want, set := range map[amp.Misuse]func(s *amp.GradScaler){
		amp.BadGrowth:   func(s *amp.GradScaler) { s.SetGrowthFactor(math.NaN()) },
		amp.BadBackoff:  func(s *amp.GradScaler) { s.SetBackoffFactor(-1) },
		amp.BadInterval: func(s *amp.GradScaler) { s.SetGrowthInterval(-1) },
	} {
		s := amp.NewGradScaler()
		set(s)
		require.ErrorIs(t, s.Err(), want)
		require.ErrorIs(t, s.Update(), want)
		off := amp.NewGradScaler(amp.Enabled(false))
		set(off)
		require.NoError(t, off.Err())
	}
}

func TestUpdate_RefusesANewScaleThatIsNone(t *testing.T) {
	s := onHost(t).scaled(amp.InitScale(4))
	for _, v := range []float64{-1, 0, math.NaN(), math.Inf(1), 1e39} {
		require.ErrorIs(t, s.Update(amp.NewScale(v)), amp.BadScale, "%v", v)
	}
	require.Equal(t, 4.0, scaleOf(t, s))
}
