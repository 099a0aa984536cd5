package timeline_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/timeline"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
)

// A GPU's own times stand beside the calls, on one scale: no work begins before the recording.
func TestWriteTrace_HasTheOwnTimesOfGPUs(t *testing.T) {
	dev, _ := emulatedtest.New(t)
	tl, err := timeline.Start(dev)
	require.NoError(t, err)
	train(t, dev, 1)
	tl.Stop()
	require.NoError(t, memory.Drop(dev))
	events := written(t, tl)
	names := map[[2]int]string{}
	for _, e := range named(events, "M", "thread_name") {
		names[[2]int{*e.PID, *e.TID}] = e.Args["name"].(string)
	}
	kernels, calls, last := 0, 0, 0.0
	for _, e := range events {
		switch {
		case e.Ph != "X":
		case e.Cat == "kernel":
			kernels++
			require.Equal(t, "stream 0", names[[2]int{*e.PID, *e.TID}])
			last = max(last, *e.TS+*e.Dur)
		case e.Cat == "operation":
			calls++
			require.True(t, strings.HasSuffix(names[[2]int{*e.PID, *e.TID}], ": calls"))
		}
	}
	require.Positive(t, kernels)
	require.Positive(t, calls)
	step := named(events, "X", "training step")[0]
	require.Greater(t, last, *step.TS, "the work of the step is not before it")
}
