package checkpoint_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

func TestModule_OfAnUnsetModel_GivesItsValuesOrNone(t *testing.T) {
	linear := func(opts ...nn.Option) *nn.LinearLayer {
		l := nn.Linear(2, 2)
		require.NoError(t, l.To(host.Default(), opts...))
		t.Cleanup(l.Release)
		return l
	}
	old, model := linear(nn.Seed(1)), linear(nn.Unset())
	var failing, good bytes.Buffer
	require.NoError(t, checkpoint.New().Add("model", checkpoint.Module(old)).Add("last", lastFails{}).Write(t.Context(), &failing))
	require.NoError(t, checkpoint.New().Add("model", checkpoint.Module(old)).Write(t.Context(), &good))
	require.ErrorContains(t, checkpoint.New().Add("model", checkpoint.Module(model)).Add("last", lastFails{}).Read(t.Context(), &failing), "on purpose")
	require.Nil(t, model.Weight.Tensor(), "it is to be loaded still")
	turned := nn.Transposed(func(name string) bool { return name == "weight" })
	require.NoError(t, checkpoint.New().Add("model", checkpoint.Module(model, turned)).Read(t.Context(), &good))
	want, err := old.Weight.Tensor().Float64s()
	require.NoError(t, err)
	got, err := model.Weight.Tensor().Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{want[0], want[2], want[1], want[3]}, got)
}
