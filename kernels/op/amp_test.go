package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels/op"
)

// view is a contiguous view of some memory that is never touched.
func view(d dtype.DType, shape ...int) op.View {
	v := op.View{Ptr: 4096, DType: d, NDim: len(shape)}
	copy(v.Shape[:], shape)
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		v.Strides[i] = step
		step *= shape[i]
	}
	return v
}

func views(vs ...op.View) []op.View { return vs }

func TestCheck_OfAmpCalls(t *testing.T) {
	stream := device.Stream(host.Default().DefaultStream())
	flag, half := view(dtype.Float32), view(dtype.Float16, 2, 3)
	transposed := half
	transposed.Strides = [op.MaxDims]int{1, 2}
	for name, c := range map[string]struct {
		call op.Call
		bad  bool
	}{
		"unscale":  {call: op.Call{Op: op.AmpUnscale, Out: views(half, half, flag), In: views(flag), I: [8]int64{2}}},
		"nothing":  {call: op.Call{Op: op.AmpUnscale, Out: views(flag), In: views(flag)}},
		"no flag":  {call: op.Call{Op: op.AmpUnscale, Out: views(half), In: views(flag), I: [8]int64{1}}, bad: true},
		"no scale": {call: op.Call{Op: op.AmpUnscale, Out: views(half, flag), I: [8]int64{1}}, bad: true},
		"two types": {
			call: op.Call{Op: op.AmpUnscale, Out: views(half, view(dtype.Float32, 2), flag), In: views(flag), I: [8]int64{2}}, bad: true},
		"integers": {
			call: op.Call{Op: op.AmpUnscale, Out: views(view(dtype.Int64, 2), flag), In: views(flag), I: [8]int64{1}}, bad: true},
		"strided gradient": {call: op.Call{Op: op.AmpUnscale, Out: views(transposed, flag), In: views(flag), I: [8]int64{1}}, bad: true},
		"double flag": {
			call: op.Call{Op: op.AmpUnscale, Out: views(half, view(dtype.Float64)), In: views(flag), I: [8]int64{1}}, bad: true},
		"two scales": {
			call: op.Call{Op: op.AmpUnscale, Out: views(half, flag), In: views(view(dtype.Float32, 2)), I: [8]int64{1}}, bad: true},
		"negative count": {call: op.Call{Op: op.AmpUnscale, Out: views(flag), In: views(flag), I: [8]int64{-1}}, bad: true},

		"update": {call: op.Call{Op: op.AmpUpdateScale, Out: views(flag, view(dtype.Int32, 1)), In: views(flag)}},
		"tracker of another type": {
			call: op.Call{Op: op.AmpUpdateScale, Out: views(flag, view(dtype.Int64)), In: views(flag)}, bad: true},
		"scale of another type": {
			call: op.Call{Op: op.AmpUpdateScale, Out: views(view(dtype.Float64), view(dtype.Int32)), In: views(flag)}, bad: true},
		"two flags": {
			call: op.Call{Op: op.AmpUpdateScale, Out: views(flag, view(dtype.Int32)), In: views(view(dtype.Float32, 2))}, bad: true},
	} {
		c.call.Stream = stream
		if err := op.Check(&c.call); c.bad {
			require.ErrorIs(t, err, op.ErrCall, name)
		} else {
			require.NoError(t, err, name)
		}
	}
}
