package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// The gradient cannot be written over logits whose rows are one in memory.
func TestCrossEntropyInPlace_RefusesLogitsThatShareAnAddress(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	row, err := tensor.FromSlice(e, []float32{1, 2, 3}, 1, 3)
	require.NoError(t, err)
	defer row.Release()
	logits, err := row.Expand(2, 3)
	require.NoError(t, err)
	defer logits.Release()
	classes, err := tensor.FromSlice(e, []int64{0, 2})
	require.NoError(t, err)
	defer classes.Release()
	loss, lse, weight, err := tensor.CrossEntropy(logits, classes, tensor.ClassLoss{})
	require.NoError(t, err)
	defer loss.Release()
	defer lse.Release()
	defer weight.Release()
	grad, err := tensor.Ones(e, tensor.Float32, loss.Shape()...)
	require.NoError(t, err)
	defer grad.Release()
	err = gradients.CrossEntropyInPlace(logits, grad, classes, lse, tensor.ClassLoss{})
	var shape *tensor.ShapeError
	require.ErrorAs(t, err, &shape)
	values, err := row.Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2, 3}, values)
}
