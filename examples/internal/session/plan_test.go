package session

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/stepplan"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// begun is a session on a device of its own, with a plan if wanted.
func begun(t *testing.T, planned bool) *Session {
	t.Helper()
	s, err := On(sim.New(1<<30), 1)
	require.NoError(t, err)
	require.NoError(t, s.BeginPlan(planned))
	return s
}

func settings(s *Session) string { return s.Alloc.(*memory.Caching).Config().String() }

func TestPlan_IsOfTheStepsOfALoop(t *testing.T) {
	t.Setenv("CISTERN_ALLOC_CONF", "")
	s := begun(t, true)
	require.Equal(t, stepplan.Settings, settings(s))
	use := func() *autograd.Graph {
		g := autograd.NewGraph(s.Device, s.Planned())
		g.RandN(tensor.Float32, 1<<20).Exp()
		require.NoError(t, g.Err())
		return g
	}
	require.NoError(t, s.Loop(io.Discard, 5, func() (string, error) {
		use().Release()
		return "", nil
	}))
	require.NotNil(t, s.Plan)
	require.NotZero(t, s.Plan.Served)
	told := *s.Plan
	use().Release() // what comes after the training is of no step
	require.NoError(t, s.EndPlan())
	require.Equal(t, told, *s.Plan)
	require.NoError(t, s.Close(nil))
}

func TestPlan_OffChangesNothing(t *testing.T) {
	t.Setenv("CISTERN_ALLOC_CONF", "")
	s := begun(t, false)
	require.Empty(t, settings(s))
	autograd.NewGraph(s.Device, s.Planned()).Release()
	require.NoError(t, s.EndPlan())
	require.Nil(t, s.Plan)
	require.NoError(t, s.Close(nil))
}

func TestPlan_LeavesSettingsOfTheUser(t *testing.T) {
	for _, own := range []string{"max_split_size_mb:32", "expandable_segments:False"} {
		t.Setenv("CISTERN_ALLOC_CONF", own)
		s := begun(t, true)
		c, err := memory.ParseConfig(own)
		require.NoError(t, err)
		require.Equal(t, c, s.Alloc.(*memory.Caching).Config())
		require.NoError(t, s.Close(nil))
	}
}

func TestPlan_NeedsTheCache(t *testing.T) {
	t.Setenv("CISTERN_NO_MEMORY_CACHING", "1")
	s, err := On(sim.New(1<<30), 1)
	require.NoError(t, err)
	require.ErrorContains(t, s.BeginPlan(true), "-plan: the allocator of "+s.Device.ID().String()+" is a *memory.Direct, which makes no plans")
	require.NoError(t, s.Close(nil))
}

// A program that fails in its training ends the plan too.
func TestPlan_EndsWithTheSession(t *testing.T) {
	s := begun(t, true)
	p := s.plan
	failed := errors.New("failed")
	require.ErrorIs(t, s.Close(failed), failed)
	require.True(t, p.Closed())
}
