package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestCall_SaysWhatItComputes(t *testing.T) {
	view := func(shape ...int) op.View {
		v := op.View{DType: dtype.Float32, NDim: len(shape)}
		copy(v.Shape[:], shape)
		return v
	}
	c := &op.Call{Op: op.Add, Out: []op.View{view(64, 32)}, In: []op.View{view(64, 32), view()}}
	require.Equal(t, "add(64x32, scalar) = 64x32 float32", c.String())
	c = &op.Call{Op: op.Add, In: []op.View{view(1), view(2), view(3), view(4), view(5), view(6)}}
	require.Equal(t, "add(1, 2, 3, 4, 2 more)", c.String())
	require.Equal(t, "op(0)()", new(op.Call).String())
}
