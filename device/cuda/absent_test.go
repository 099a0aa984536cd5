package cuda_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
)

// Every method of a device that is not there fails, or does nothing.
func TestNilAndZeroDevices_RefuseEachCall(t *testing.T) {
	for _, d := range []*cuda.Device{nil, new(cuda.Device)} {
		require.Zero(t, d.ID())
		require.Zero(t, d.Properties())
		require.Zero(t, d.DefaultStream().Device().ID())
		require.Equal(t, "cuda: no device", fmt.Sprint(d))
		for _, v := range []reflect.Value{reflect.ValueOf(d), reflect.ValueOf(d.DefaultStream())} {
			for i := range v.NumMethod() {
				m := v.Type().Method(i)
				if m.Name == "SetProfileLimits" { // of tests
					continue
				}
				in := make([]reflect.Value, 0, m.Type.NumIn())
				for k := 1; k < m.Type.NumIn(); k++ {
					in = append(in, argumentOf(m.Type.In(k)))
				}
				if m.Type.IsVariadic() {
					in = in[:len(in)-1]
				}
				var out []reflect.Value
				require.NotPanics(t, func() { out = v.Method(i).Call(in) }, m.Name)
				if n := len(out); n > 0 && m.Type.Out(n-1) == reflect.TypeFor[error]() && m.Name != "MatMul" { // which leaves products to others
					err, _ := out[n-1].Interface().(error)
					assert.ErrorIs(t, err, device.ErrUnavailable, m.Name)
				}
			}
		}
	}
}

// argumentOf is 1 and what is valid, so that nothing else is refused first.
func argumentOf(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case v.CanUint():
		v.SetUint(1)
	case v.CanInt():
		v.SetInt(1)
	case t.String() == "context.Context":
		v.Set(reflect.ValueOf(background))
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
	case t.Kind() == reflect.Func:
		v.Set(reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value { panic("nothing runs") }))
	}
	return v
}
