package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// A result without dimensions has one element, whatever k is: it must be written.
func TestTopK_NoneOfAScalarIsTheScalar(t *testing.T) {
	b := onHost(t)
	var others []*tensor.Tensor
	for range 4 { // leaves something else in the memory that is taken next
		other, err := tensor.Full(b.Exec, 7, tensor.Int64, 2)
		require.NoError(t, err)
		others = append(others, other)
	}
	for _, other := range others {
		other.Release()
	}
	x, err := tensor.Scalar(b.Exec, 5, tensor.Float32)
	require.NoError(t, err)
	defer x.Release()
	for _, k := range []int{0, 1} {
		values, indices, err := x.TopK(k, 0, true)
		require.NoError(t, err)
		elements, err := values.Float64s()
		require.NoError(t, err)
		places, err := indices.Float64s()
		require.NoError(t, err)
		values.Release()
		indices.Release()
		require.Equal(t, []float64{5}, elements, "k is %d", k)
		require.Equal(t, []float64{0}, places, "k is %d", k)
	}
}
