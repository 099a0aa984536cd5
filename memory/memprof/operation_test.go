package memprof_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/memory"
)

// The operation is the innermost function, and a label with the module.
func TestWriteProfile_NamesOperations(t *testing.T) {
	dev, a := open(t)
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{Enabled: memory.HistoryState, Context: memory.ContextState}))
	in := func(l oplabel.Label) {
		defer oplabel.Enter(oplabel.Enter(oplabel.Of(l)))
		weights(t, a, 20*device.MiB, dev.DefaultStream())
	}
	for _, module := range []string{"h.0", "h.1"} {
		in(oplabel.Label{Op: "linear", Module: module})
	}
	in(oplabel.Label{Op: "linear", Module: "h.1", Backward: true})
	in(oplabel.Label{Op: "Adam"})
	var found []string
	for _, s := range profileOf(t, dev).samples {
		require.Contains(t, s.stack[1], here+"weights:")
		found = append(found, s.stack[0][:len(s.stack[0])-3]+s.labels)
	}
	require.ElementsMatch(t, []string{
		"linear module=h.0 op=linear pool=large state=active_allocated stream=0",
		"linear module=h.1 op=linear pool=large state=active_allocated stream=0",
		"linear backward module=h.1 op=linear backward pool=large state=active_allocated stream=0",
		"Adam op=Adam pool=large state=active_allocated stream=0",
	}, found)
}
