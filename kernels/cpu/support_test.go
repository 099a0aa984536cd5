package cpu

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// call makes a call with the scalars F.
func call(f ...float64) *op.Call {
	c := &op.Call{}
	copy(c.F[:], f)
	return c
}

// viewOf is a contiguous view of a slice, which stays alive until the end of the test: a view holds no reference.
func viewOf[T any](t testing.TB, d dtype.DType, v []T, shape ...int) op.View {
	t.Cleanup(func() { runtime.KeepAlive(v) })
	w := op.View{DType: d, NDim: len(shape)}
	if len(v) > 0 {
		w.Ptr = device.Ptr(unsafe.Pointer(&v[0]))
	}
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		w.Shape[i], w.Strides[i] = shape[i], step
		step *= shape[i]
	}
	return w
}

// transposed is v with its first two dimensions exchanged.
func transposed(v op.View) op.View {
	v.Shape[0], v.Shape[1] = v.Shape[1], v.Shape[0]
	v.Strides[0], v.Strides[1] = v.Strides[1], v.Strides[0]
	return v
}

// launch runs a call with the kernel of this package.
func launch(t testing.TB, c *op.Call) {
	t.Helper()
	for _, r := range Rows() {
		if r.Op == c.Op {
			if err := r.Funcs[c.Key()](c); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no row for %s", c.Op)
}

// workers runs f with n processors.
func workers(n int, f func()) {
	before := runtime.GOMAXPROCS(n)
	defer runtime.GOMAXPROCS(before)
	f()
}

// requireSame compares large slices bit by bit, and names the first difference only.
func requireSame[T float](t testing.TB, want, got []T, name string) {
	t.Helper()
	require.Len(t, got, len(want), name)
	for i := range want {
		if want[i] != got[i] && !(want[i] != want[i] && got[i] != got[i]) {
			require.Failf(t, "different results", "%s: element %d is %v, want %v", name, i, got[i], want[i])
		}
	}
}

// noStream stands for a stream.
type noStream struct{ device.Stream }
