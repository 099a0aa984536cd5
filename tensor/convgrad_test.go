package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// Found by internal/torchtest: dilated taps of which a part of the image meets none, of a kernel whose elements share an address.
func TestConvGradInput_OfAnExpandedKernel(t *testing.T) {
	b := onHost(t)
	one := must(t)(tensor.Full(b.Exec, 2, tensor.Float32, 1, 1, 1))
	expanded := must(t)(one.Expand(1, 1, 3))
	whole := must(t)(tensor.Full(b.Exec, 2, tensor.Float32, 1, 1, 3))
	grad := iota(t, b.Exec, 2, 1, 2)
	c := tensor.Conv{Stride: []int{2}, Padding: []int{2}, Dilation: []int{2}}
	want := must(t)(gradients.ConvInput(grad, whole, tensor.Shape{2, 1, 3}, c))
	got := must(t)(gradients.ConvInput(grad, expanded, tensor.Shape{2, 1, 3}, c))
	require.Equal(t, values(t, want), values(t, got))
}
