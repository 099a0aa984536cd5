package autograd_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Tensors without dimensions have dimensions 0 and -1 for what asks for one. This calls every method of a variable that takes nothing but
// dimensions, flags and indices, and goes back through what it gives.
func TestBackward_ThroughOperationsOnScalarsAlongADimension(t *testing.T) {
	of, called := reflect.TypeFor[*autograd.Variable](), 0
	for i := range of.NumMethod() {
		m := of.Method(i)
		if !alongDimensions(m.Type) {
			continue
		}
		for _, dim := range []int{0, -1} {
			t.Run(fmt.Sprint(m.Name, dim), func(t *testing.T) {
				r := onHost(t)
				g := r.graph()
				defer g.Release()
				x := g.Input(keep(t)(tensor.Scalar(r.exec, 2, tensor.Float64)), autograd.RequiresGrad())
				for _, result := range m.Func.Call(scalarArguments(r, m.Type, x, dim)) {
					out, ok := result.Interface().(*autograd.Variable)
					if !ok || g.Err() != nil || !out.RequiresGrad() {
						continue
					}
					called++
					require.NoError(t, out.Sum(nil, false).Backward(autograd.RetainGraph()))
					require.Empty(t, x.Grad().Shape())
				}
			})
		}
	}
	require.Greater(t, called, 30)
}

func alongDimensions(f reflect.Type) bool {
	ints := 0
	for i := 1; i < f.NumIn(); i++ {
		switch a := f.In(i); {
		case a == reflect.TypeFor[int]():
			ints++
		case a.Kind() != reflect.Bool && a != f.In(0) && !(f.IsVariadic() && i == f.NumIn()-1):
			return false
		}
	}
	return ints > 0
}

func scalarArguments(r *rig, f reflect.Type, x *autograd.Variable, dim int) []reflect.Value {
	args := []reflect.Value{reflect.ValueOf(x)}
	for i := 1; i < f.NumIn(); i++ {
		switch a := f.In(i); {
		case f.IsVariadic() && i == f.NumIn()-1:
		case a == f.In(0):
			args = append(args, reflect.ValueOf(x.Graph().Input(keep(r.t)(tensor.Scalar(r.exec, 0, tensor.Int64)))))
		case a.Kind() == reflect.Bool:
			args = append(args, reflect.ValueOf(false))
		default:
			args = append(args, reflect.ValueOf(dim))
		}
	}
	return args
}
