package checkpoint_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// lastFails is a section whose change fails after the others.
type lastFails struct{}

func (lastFails) Save() (checkpoint.Content, error) { return checkpoint.Content{}, nil }

func (lastFails) Prepare(checkpoint.Content) (checkpoint.Change, error) {
	return checkpoint.Change{Apply: func() error { return errors.New("on purpose") }}, nil
}

func TestModule_InPart_TakesWhatBothHaveAndListsTheRest(t *testing.T) {
	old := nn.Sequential(nn.Linear(2, 3, nn.WeightInit(nn.Constant(5))), nn.Linear(3, 1))
	model := nn.Sequential(nn.Linear(2, 3, nn.WeightInit(nn.Zeros)), nn.ReLU(), nn.Linear(3, 4))
	for _, m := range []nn.Layer{old, model} {
		require.NoError(t, m.To(host.Default()))
		defer m.Release()
	}
	var left nn.Unmatched
	file := func() *bytes.Buffer {
		var b bytes.Buffer
		require.NoError(t, checkpoint.New().Add("model", checkpoint.Module(old)).Add("last", lastFails{}).Write(t.Context(), &b))
		return &b
	}
	weight := func() float64 {
		v, err := model.Parameters()[0].Tensor().Float64s()
		require.NoError(t, err)
		return v[0]
	}
	var differ *checkpoint.MismatchError
	require.ErrorAs(t, checkpoint.New().Add("model", checkpoint.Module(model)).Add("last", lastFails{}).Read(t.Context(), file()), &differ)
	require.ErrorContains(t, checkpoint.New().Add("model", checkpoint.Module(model, nn.Partial(&left))).Add("last", lastFails{}).
		Read(t.Context(), file()), "on purpose")
	require.Equal(t, nn.Unmatched{}, left)
	require.Zero(t, weight())

	var b bytes.Buffer
	require.NoError(t, checkpoint.New().Add("model", checkpoint.Module(old)).Write(t.Context(), &b))
	require.NoError(t, checkpoint.New().Add("model", checkpoint.Module(model, nil, nn.Partial(&left))).Read(t.Context(), &b))
	require.Equal(t, nn.Unmatched{Missing: []string{"2.weight", "2.bias"}, Unexpected: []string{"1.bias", "1.weight"}}, left)
	require.InDelta(t, 5, weight(), 0)
}
