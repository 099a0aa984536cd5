package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestAttention_GoesToTensorCoresWhereRowsCanBeCopiedInPieces(t *testing.T) {
	half, wide := attentionKernelsOfTest(dtype.Float16), attentionKernelsOfTest(dtype.Float32)
	projected := func(size int) *op.View { // one of three, as a projection leaves them
		v := &op.View{Ptr: 4096, DType: dtype.Float16, NDim: 4, Shape: [op.MaxDims]int{2, 3, 5, size}}
		copy(v.Strides[:], []int{5 * 9 * size, size, 9 * size, 1})
		return v
	}
	call := func(size int) *attention {
		return &attention{q: projected(size), k: projected(size), v: projected(size)}
	}
	require.True(t, call(64).tensorable(half))
	require.True(t, call(128).tensorable(half))
	require.True(t, call(8).tensorable(half))
	require.False(t, call(64).tensorable(wide), "float32 is summed in float32")
	require.False(t, call(12).tensorable(half), "rows begin at odd multiples of 8 bytes")
	odd := call(64)
	odd.k.Ptr += 2
	require.False(t, odd.tensorable(half))
	transposed := call(64)
	transposed.v.Strides[2], transposed.v.Strides[3] = 1, 8
	require.False(t, transposed.tensorable(half))
}

// attentionKernelsOfTest has the shape of what attentionKernelsOf makes, without adding kernels to the package's list.
func attentionKernelsOfTest(d dtype.DType) *attentionKernels {
	k := &attentionKernels{any: [4]*kernel{{}}}
	if d == dtype.Float16 {
		k.tensor[0][0] = new(kernel)
	}
	return k
}
