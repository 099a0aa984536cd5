package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// The journal has words of its own, because it cannot have those of this package.
func TestActions_AreTheJournals(t *testing.T) {
	words := []string{}
	for _, a := range []Action{ActionAlloc, ActionFreeRequested, ActionFreeCompleted, ActionSegmentAlloc, ActionSegmentFree, ActionSegmentMap,
		ActionSegmentUnmap, ActionSnapshot, ActionOOM} {
		words = append(words, string(a))
	}
	require.Equal(t, words, journal.ActionNames())
	for ours, theirs := range map[HistoryContext]journal.Context{ContextAll: journal.ContextAll, ContextAlloc: journal.ContextAlloc,
		ContextState: journal.ContextState, ContextNone: journal.ContextNone} {
		require.Equal(t, theirs, journal.Context(ours))
	}
}
