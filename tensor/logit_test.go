package tensor_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// Bounds of float32 are rounded to it, as PyTorch's are: of 1 with an eps of 1e-6 the logit is 13.8023, not 13.8155.
func TestLogit_HasPyTorchsBounds(t *testing.T) {
	text, err := os.ReadFile("testdata/logit.json")
	require.NoError(t, err)
	var rows []json.RawMessage
	require.NoError(t, json.Unmarshal(text, &rows))
	require.NotEmpty(t, rows)
	b := onHost(t)
	for _, raw := range rows {
		var eps float64
		var x, y, slopes, xWide, wide []float64
		require.NoError(t, json.Unmarshal(raw, &[]any{&eps, &x, &y, &slopes, &xWide, &wide}))
		narrow := must(t)(must(t)(tensor.FromSlice(b.Exec, x)).To(tensor.Float32))
		require.InDeltaSlice(t, y, values(t, must(t)(narrow.Logit(eps))), 4e-6)
		ones := must(t)(narrow.OnesLike())
		got := values(t, must(t)(gradients.Logit(ones, narrow, eps)))
		for i := range slopes {
			require.InEpsilon(t, slopes[i]+1, got[i]+1, 1e-6, "the slope at %v with an eps of %v", x[i], eps)
		}
		require.InDeltaSlice(t, wide, values(t, must(t)(must(t)(tensor.FromSlice(b.Exec, xWide)).Logit(eps))), 1e-14)
		require.InDelta(t, y[len(y)-1], values(t, must(t)(must(t)(tensor.Ones(b.Exec, tensor.Int64, 3)).Logit(eps)))[2], 4e-6)
		require.InDelta(t, y[0], values(t, must(t)(must(t)(tensor.Zeros(b.Exec, tensor.Bool, 3)).Logit(eps)))[1], 4e-6)
	}
}
