package checkpoint_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
)

// Files for another function are told by name, with what loads them.
func TestFiles_OfAnotherKind_AreToldByWhatLoadsThem(t *testing.T) {
	m := nn.Linear(2, 1)
	require.NoError(t, m.To(host.Default(), nn.Seed(1)))
	t.Cleanup(m.Release)
	c := checkpoint.New().Add("model", checkpoint.Module(m))
	var model, state bytes.Buffer
	require.NoError(t, nn.Save(&model, m))
	require.NoError(t, c.Write(context.Background(), &state))
	ctx := context.Background()

	var format *checkpoint.FormatError
	err := c.Read(ctx, &model)
	require.ErrorAs(t, err, &format)
	require.ErrorContains(t, err, "nn.Load")

	var mismatch *nn.MismatchError
	err = nn.Load(bytes.NewReader(state.Bytes()), m)
	require.ErrorAs(t, err, &mismatch)
	require.EqualError(t, err, "nn: Load: it is a checkpoint of a training run: Checkpoint.Read of package autograd/checkpoint loads it")
	require.ErrorAs(t, nn.Load(bytes.NewReader(state.Bytes()), m, nn.Partial(nil)), &mismatch, "nothing of it would be loaded")

	archive := append([]byte("PK\x03\x04"), make([]byte, 60)...)
	var unsound *nn.FormatError
	require.ErrorAs(t, nn.Load(bytes.NewReader(archive), m), &unsound)
	require.Contains(t, unsound.Detail, "a zip archive, as torch.save writes")
	require.Contains(t, unsound.Detail, "safetensors.torch.save_file")
	require.ErrorAs(t, c.Read(ctx, bytes.NewReader(archive)), &format)
	require.Equal(t, unsound.Detail, format.Detail)
}

// A checkpoint of a run with Adam is not loaded into one with AdamW, though their tensors and settings have the same names.
func TestRead_RefusesTheStateOfAnotherOptimizer(t *testing.T) {
	model := nn.Linear(2, 1)
	require.NoError(t, model.To(host.Default()))
	defer model.Release()
	var file bytes.Buffer
	require.NoError(t, checkpoint.New().Add("optimizer", checkpoint.Optimizer(optim.Adam(model.Parameters()))).Write(t.Context(), &file))
	err := checkpoint.New().Add("optimizer", checkpoint.Optimizer(optim.AdamW(model.Parameters()))).Read(t.Context(), &file)
	var wrong *optim.StateError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, [2]string{"Adam", "AdamW"}, [2]string{wrong.From, wrong.Of})
}
