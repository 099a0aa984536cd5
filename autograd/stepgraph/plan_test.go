package stepgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/internal/stepplan"
	"github.com/cistern-ml/cistern/memory"
)

// A plan serves the eager runs, and says where blocks go in the pool of a capture. With it segments are expandable, and pages move.
func TestStep_WithAPlanEqualsEagerSteps(t *testing.T) {
	t.Setenv("CISTERN_ALLOC_CONF", "")
	dev := emulated(t)
	a, err := memory.For(dev)
	require.NoError(t, err)
	plan, err := stepplan.Begin(a)
	require.NoError(t, err)
	captured := newTraining(t, dev, adamW, stepgraph.GraphOptions(autograd.WithPlan(plan)), stepgraph.WarmUp(5))
	eager := newTraining(t, dev, adamW)
	for turn, replay := range []bool{true, true, true, true, true, true, true, false, false, true, false, true, true} {
		run := captured.step.Eager
		if replay {
			run = captured.step.Run
		}
		want, err := eager.try(turn, rows, eager.step.Eager)
		require.NoError(t, err)
		got, err := captured.try(turn, rows, run)
		require.NoError(t, err)
		require.Equal(t, want, got, "turn %d", turn)
		require.Equal(t, eager.state(), captured.state(), "turn %d", turn)
	}
	require.Equal(t, 5, captured.step.Stats().Replays)
	require.Positive(t, plan.Stats().Steps)
	captured.release()
	eager.release()
	require.NoError(t, plan.Close())
	nothingLeft(t, dev)
}
