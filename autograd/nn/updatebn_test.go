package nn_test

import (
	"encoding/json"
	"errors"
	"iter"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

func TestUpdateBN_ComputesWhatPyTorchComputes(t *testing.T) {
	text, err := os.ReadFile("testdata/updatebn.json")
	require.NoError(t, err)
	var want struct {
		X                   []float64
		Parameters, Buffers map[string][]float64
	}
	require.NoError(t, json.Unmarshal(text, &want))
	r := onHost(t)
	second := nn.BatchNorm1d(3)
	first := nn.BatchNorm1d(3, nn.Momentum(0.3))
	m := nn.Sequential(nn.Linear(2, 3), first, nn.ReLU(), second)
	r.place(m, nn.DType(tensor.Float64))
	for _, n := range nn.NamedParameters(m) {
		setValues(t, r, n, want.Parameters[n.Name])
	}
	for _, n := range nn.NamedBuffers(m) { // what was there before is forgotten
		require.NoError(t, n.Parameter.Tensor().FillInPlace(7))
	}
	second.SetTraining(false)
	before := r.allocated()
	require.NoError(t, nn.UpdateBN(m, batchesOf(t, r, want.X, 6, 6, 3)))
	require.Equal(t, before, r.allocated())
	for _, n := range nn.NamedBuffers(m) {
		require.InDeltaSlice(t, want.Buffers[n.Name], valuesOf(t, n.Parameter), 1e-13, n.Name)
	}
	require.True(t, m.Training())
	require.False(t, second.Training(), "modes are as before")
	require.InDelta(t, 0.3, first.Momentum, 0)
}

// batchesOf gives rows of two numbers in batches.
func batchesOf(t *testing.T, r *rig, values []float64, rows ...int) iter.Seq2[*tensor.Tensor, *tensor.Tensor] {
	return func(yield func(x, y *tensor.Tensor) bool) {
		for _, n := range rows {
			x, err := tensor.FromSlice(r.exec, values[:2*n], n, 2)
			require.NoError(t, err)
			more := yield(x, nil)
			x.Release()
			if values = values[2*n:]; !more {
				return
			}
		}
	}
}

func TestUpdateBN_BringsModesBackAfterAnError(t *testing.T) {
	r := onHost(t)
	norm := nn.BatchNorm1d(2)
	m := nn.Sequential(norm)
	wrong := errors.New("wrong")
	var bad *nn.ArgumentError
	require.ErrorAs(t, nn.UpdateBN(m, batchesOf(t, r, []float64{1, 2}, 1)), &bad, "no memory")
	r.place(m)
	nn.Eval(m)
	require.ErrorIs(t, nn.UpdateBNBy(m, func() error {
		require.True(t, norm.Training())
		return wrong
	}), wrong)
	require.False(t, norm.Training())
	require.InDelta(t, 0.1, norm.Momentum, 0)
	require.Error(t, nn.UpdateBN(m, batchesOf(t, r, []float64{1, 2, 3, 4, 5, 6}, 3)), "float64 rows of a model in float32")
	require.ErrorAs(t, nn.UpdateBN(nil, nil), &bad)
	require.ErrorAs(t, nn.UpdateBNBy(m, nil), &bad)
	require.NoError(t, nn.UpdateBN(nn.ReLU(), batchesOf(t, r, nil)), "nothing to compute")
	var released *tensor.ReleasedError
	require.ErrorAs(t, nn.UpdateBN(m, func(yield func(x, y *tensor.Tensor) bool) { yield(nil, nil) }), &released)
}
