package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// GLU is the first half of x along dim times the sigmoid of the second. PyTorch's default is the last dimension.
func GLU(dim int) *FuncModule {
	return Func(fmt.Sprintf("GLU(dim=%d)", dim), func(x *autograd.Variable) *autograd.Variable { return x.GLU(dim) })
}

// Softmin is the softmax of -x along dim.
func Softmin(dim int) *FuncModule {
	return Func(fmt.Sprintf("Softmin(dim=%d)", dim), func(x *autograd.Variable) *autograd.Variable { return x.Softmin(dim) })
}
