package checkpoint_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// without takes a prefix away, and leaves out what does not have it.
func without(prefix string) nn.LoadOption {
	return nn.Rename(func(name string) string {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
		return ""
	})
}

func TestModule_WithRename_TakesAPartUnderOtherNames(t *testing.T) {
	whole := nn.Sequential(nn.Sequential(nn.Linear(2, 3, nn.WeightInit(nn.Constant(5)))), nn.Linear(3, 1))
	body := nn.Sequential(nn.Linear(2, 3, nn.WeightInit(nn.Zeros)))
	for _, m := range []nn.Layer{whole, body} {
		require.NoError(t, m.To(host.Default()))
		defer m.Release()
	}
	var b bytes.Buffer
	require.NoError(t, checkpoint.New().Add("model", checkpoint.Module(whole)).Write(t.Context(), &b))
	read := func(opts ...nn.LoadOption) error {
		return checkpoint.New().Add("model", checkpoint.Module(body, opts...)).Read(t.Context(), bytes.NewReader(b.Bytes()))
	}
	weight := func() float64 {
		v, err := body.Parameters()[0].Tensor().Float64s()
		require.NoError(t, err)
		return v[0]
	}
	var differ *checkpoint.MismatchError
	require.ErrorAs(t, read(nn.Rename(func(string) string { return "0.bias" })), &differ)
	require.ErrorContains(t, differ, `nn.Rename makes "0.bias" of both`)
	require.ErrorAs(t, read(nn.Partial(nil), nn.Rename(func(string) string { return "" })), &differ)
	require.Zero(t, weight())
	require.NoError(t, read(without("0.")))
	require.InDelta(t, 5, weight(), 0)

	require.NoError(t, body.Parameters()[0].Tensor().FillInPlace(0))
	require.Error(t, nn.Load(bytes.NewReader(b.Bytes()), body, nn.Partial(nil)), "a checkpoint")
	require.NoError(t, nn.Load(bytes.NewReader(b.Bytes()), body, without("model.0.")))
	require.InDelta(t, 5, weight(), 0)
	require.NoError(t, nn.Load(bytes.NewReader(b.Bytes()), body, nn.Partial(nil), without("model.0.")))
}
