package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// What reads a value names itself, and the program's line.
func TestReading_ErrorsHaveTheCallAndTheLine(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	v := g.Ones(tensor.Float32, 2)
	_, err := autograd.Values[float64](v)
	var dtype *tensor.DTypeError
	require.ErrorAs(t, err, &dtype)
	require.Equal(t, "Values", dtype.Op)
	require.ErrorContains(t, err, "autograd: Values at reading_test.go:")
	require.NotContains(t, err.Error(), "ToSlice")
	_, err = v.Item()
	require.ErrorContains(t, err, "autograd: Item at reading_test.go:")
	ints, err := autograd.Values[int](autograd.FromSlice(g, []int{1<<53 + 1}))
	require.NoError(t, err)
	require.Equal(t, []int{1<<53 + 1}, ints)
}
