package autograd_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// A dimension that there is not is an error, whatever the other operands are: of each method of variables with a whole number and other variables all
// combinations of a few operands are tried, which are right for the method or nearly so.
func TestDimensions_ThatThereAreNotAreErrors(t *testing.T) {
	b := onHost(t)
	variables := reflect.TypeFor[*autograd.Variable]()
	called := 0
	for i := range variables.NumMethod() {
		m := variables.Method(i)
		if !m.IsExported() || m.Name == "Release" {
			continue
		}
		for _, d := range []int{-4, 3, math.MaxInt, math.MinInt} {
			for _, kinds := range combinations(m.Type, 4) {
				g := autograd.NewGraph(b.dev)
				pool := []*autograd.Variable{
					g.RandN(tensor.Float32, 3, 3), g.Zeros(tensor.Int64, 3, 3), g.Zeros(tensor.Int64, 3), g.Zeros(tensor.Int64),
				}
				if args, ok := operandsOf(m.Type, pool, kinds, d); ok {
					require.NotPanics(t, func() { m.Func.Call(args) }, "%s of dimension %d, operands %v", m.Name, d, kinds)
					called++
				}
				g.Release()
			}
		}
	}
	require.Greater(t, called, 1000)
}

// combinations are the choices of one of n operands for each variable of a method but the receiver, if it has whole numbers too.
func combinations(f reflect.Type, n int) (list [][]int) {
	list, whole := [][]int{nil}, false
	for i := 1; i < f.NumIn(); i++ {
		switch f.In(i) {
		case reflect.TypeFor[*autograd.Variable]():
			var longer [][]int
			for _, l := range list {
				for k := range n {
					longer = append(longer, append(l[:len(l):len(l)], k))
				}
			}
			list = longer
		case reflect.TypeFor[int](), reflect.TypeFor[[]int]():
			whole = true
		}
	}
	if !whole || len(list) > n*n {
		return nil
	}
	return list
}

// operandsOf are the arguments of a call: d for whole numbers, and what is simple for the rest. It is not ok if a type is none of those.
func operandsOf(f reflect.Type, pool []*autograd.Variable, kinds []int, d int) (args []reflect.Value, ok bool) {
	args = append(args, reflect.ValueOf(pool[0]))
	for i := 1; i < f.NumIn(); i++ {
		in := f.In(i)
		switch {
		case f.IsVariadic() && i == f.NumIn()-1:
		case in == reflect.TypeFor[*autograd.Variable]():
			args, kinds = append(args, reflect.ValueOf(pool[kinds[0]])), kinds[1:]
		case in.Kind() == reflect.Int:
			args = append(args, reflect.ValueOf(d).Convert(in))
		case in == reflect.TypeFor[[]int]():
			args = append(args, reflect.ValueOf([]int{d}))
		case in.Kind() == reflect.Bool, in.Kind() == reflect.Float64:
			args = append(args, reflect.Zero(in))
		default:
			return nil, false
		}
	}
	return args, true
}
