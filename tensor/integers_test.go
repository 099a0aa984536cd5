package tensor_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// integerCase is an operation on integers of which PyTorch's results are known; none is a refusal.
type integerCase struct {
	Op, DType, To string
	A, B, Want    []int64
	V             float64
}

// integers are the elements of an integer tensor, without a detour through float64.
func integers(t testing.TB, x *tensor.Tensor) []int64 {
	wide := must(t)(x.To(tensor.Int64))
	v, err := tensor.ToSlice[int64](wide)
	require.NoError(t, err)
	return v
}

func TestIntegers_AreExactAtTheEndsOfTheirTypes(t *testing.T) {
	var cases []integerCase
	readGolden(t, "integers.json", &cases)
	require.Greater(t, len(cases), 200)
	b := onHost(t)
	for _, c := range cases {
		var in tensors
		for _, v := range [][]int64{c.A, c.B} {
			if v != nil {
				x := must(t)(tensor.FromSlice(b.Exec, v, len(v)))
				in = append(in, must(t)(x.To(typeNamed(t, c.DType))))
			}
		}
		arguments := args{c.V}
		if slices.Contains([]string{"Sum", "Prod", "Max", "Min"}, c.Op) {
			arguments = args{false}
		} else if slices.Contains([]string{"Sort", "ArgMax"}, c.Op) {
			arguments = args{0.0, false}
		}
		got, err := operations[c.Op](in, arguments)
		if c.Want == nil {
			assert.Error(t, err, "%s of %s with %v", c.Op, c.DType, c.V)
			got.Release()
			continue
		}
		if assert.NoError(t, err, "%s of %s with %v", c.Op, c.DType, c.V) {
			assert.Equal(t, c.To, got.DType().String(), "%s of %s with %v", c.Op, c.DType, c.V)
			assert.Equal(t, c.Want, integers(t, got), "%s of %s with %v: %v %v", c.Op, c.DType, c.V, c.A, c.B)
			got.Release()
		}
	}
}
