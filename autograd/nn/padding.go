package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// The layers below put elements around their input: pad is one number for all sides, or those before and after along the last dimension, then along the one
// before it, and so on.

// ZeroPad2d puts zeros around [N, C, H, W]. Negative numbers cut elements off.
func ZeroPad2d(pad ...int) *FuncModule {
	return padLayer("ZeroPad2d", 2, tensor.PadConstant, 0, "", pad)
}

// ConstantPad1d puts a value around [N, C, L]. Negative numbers cut elements off.
func ConstantPad1d(value float64, pad ...int) *FuncModule { return constantPad(1, value, pad) }

// ConstantPad2d puts a value around [N, C, H, W]. Negative numbers cut elements off.
func ConstantPad2d(value float64, pad ...int) *FuncModule { return constantPad(2, value, pad) }

// ConstantPad3d puts a value around [N, C, D, H, W]. Negative numbers cut elements off.
func ConstantPad3d(value float64, pad ...int) *FuncModule { return constantPad(3, value, pad) }

// ReflectionPad1d mirrors [N, C, L] at its ends, which are not repeated.
func ReflectionPad1d(pad ...int) *FuncModule {
	return padLayer("ReflectionPad1d", 1, tensor.PadReflect, 0, "", pad)
}

// ReflectionPad2d mirrors [N, C, H, W] at its edges, which are not repeated.
func ReflectionPad2d(pad ...int) *FuncModule {
	return padLayer("ReflectionPad2d", 2, tensor.PadReflect, 0, "", pad)
}

// ReflectionPad3d mirrors [N, C, D, H, W] at its edges, which are not repeated.
func ReflectionPad3d(pad ...int) *FuncModule {
	return padLayer("ReflectionPad3d", 3, tensor.PadReflect, 0, "", pad)
}

// ReplicationPad1d repeats the ends of [N, C, L].
func ReplicationPad1d(pad ...int) *FuncModule {
	return padLayer("ReplicationPad1d", 1, tensor.PadReplicate, 0, "", pad)
}

// ReplicationPad2d repeats the edges of [N, C, H, W].
func ReplicationPad2d(pad ...int) *FuncModule {
	return padLayer("ReplicationPad2d", 2, tensor.PadReplicate, 0, "", pad)
}

// ReplicationPad3d repeats the edges of [N, C, D, H, W].
func ReplicationPad3d(pad ...int) *FuncModule {
	return padLayer("ReplicationPad3d", 3, tensor.PadReplicate, 0, "", pad)
}

func constantPad(dims int, value float64, pad []int) *FuncModule {
	return padLayer(fmt.Sprintf("ConstantPad%dd", dims), dims, tensor.PadConstant, value, ", value="+scales([]float64{value}), pad)
}

// padLayer makes a layer for inputs with dims dimensions beside, perhaps, those of examples and channels.
func padLayer(name string, dims int, mode tensor.PadMode, value float64, more string, pad []int) *FuncModule {
	all := make([]int, 2*dims)
	for i := range all {
		if len(pad) == 1 {
			all[i] = pad[0]
		} else if len(pad) == len(all) {
			all[i] = pad[i]
		}
	}
	label := ""
	if more != "" {
		label = "padding="
	}
	m := Func(fmt.Sprintf("%s(%s%s%s)", name, label, tuple(all, len(all), 0), more), func(x *autograd.Variable) *autograd.Variable { return x.Pad(all, mode, value) })
	if len(pad) != 1 && len(pad) != len(all) {
		m.mistaken(argumentErr(name, "%d numbers; one is needed, or %d", len(pad), len(all)))
	}
	return m
}
