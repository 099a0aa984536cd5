package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/launches"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/memory"
)

// requested is the largest sum of what was asked for of memory in two steps, of which the first makes the optimizer's state, on a device whose kernels have the workspaces of a GPU's. What blocks have
// besides follows from the order of requests.
func requested(t *testing.T, model, amp string, last bool) (bytes int64) {
	t.Helper()
	d := launches.New(countedMemory)
	err := trainOn(d, options{amp: amp, last: last, steps: 2}, find(model), func(t *trainer, _ int) {
		bytes = t.alloc.(*memory.Caching).Stats().RequestedBytes.All.Peak
	})
	require.NoError(t, errors.Join(err, cuda.Unload(d)))
	require.Positive(t, bytes)
	return bytes
}

// Convolutions that find their operands with the channels last need no workspace for copies of them, so that a step needs less memory, and at no
// precision more.
func TestPeak_ChannelsLastNeedsNoMoreMemory(t *testing.T) {
	for _, amp := range []string{"off", "bf16"} {
		first, last := requested(t, "resnet", amp, false), requested(t, "resnet", amp, true)
		require.LessOrEqual(t, last, first, amp)
		if amp != "off" {
			require.Less(t, last, first, amp)
		}
	}
}

// The limit of a small GPT in half precision, a little above what it asks for: docs/decisions.md says what it asked for before a step was few operations.
const mostRequested = 443 << 20

func TestPeak_OfHalfPrecision(t *testing.T) {
	bf16, fp16 := requested(t, "gpt", "bf16", false), requested(t, "gpt", "fp16", false)
	require.LessOrEqual(t, fp16, int64(mostRequested))
	require.LessOrEqual(t, bf16, fp16)
	require.Less(t, fp16-bf16, int64(4<<10), "but for the scale and what found infinities")
	require.Less(t, fp16, requested(t, "gpt", "off", false)*4/5)
}
