package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestScalars_AtTheEndsOfIntegerTypesAndBeyond(t *testing.T) {
	var cases []integerCase
	readGolden(t, "scalarends.json", &cases)
	require.Greater(t, len(cases), 200)
	b := onHost(t)
	for _, c := range cases {
		x := must(t)(must(t)(tensor.FromSlice(b.Exec, c.A, len(c.A))).To(typeNamed(t, c.DType)))
		got, err := operations[c.Op](tensors{x}, args{c.V})
		if assert.NoError(t, err, "%s of %s with %v", c.Op, c.DType, c.V) {
			assert.Equal(t, c.To, got.DType().String(), "%s of %s with %v", c.Op, c.DType, c.V)
			assert.Equal(t, tensor.Shape{len(c.A)}, got.Shape())
			assert.Equal(t, c.Want, integers(t, got), "%s of %s %v with %v", c.Op, c.DType, c.A, c.V)
			got.Release()
		}
	}
}
