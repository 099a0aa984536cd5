package cpu

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/tensor/dtype"
	"unsafe"
)

func heapView[T any](d dtype.DType, r, c int, tr bool) (op.View, []T) {
	m := make([]T, r*c)
	v := op.View{DType: d, NDim: 2, Ptr: device.Ptr(unsafe.Pointer(&m[0]))}
	v.Shape[0], v.Shape[1] = r, c
	v.Strides[0], v.Strides[1] = c, 1
	if tr {
		v.Strides[0], v.Strides[1] = 1, r
	}
	return v, m
}

func TestGemmSpeed(t *testing.T) {
	runtime.GOMAXPROCS(1)
	f := matMul(laneOf[float32](dtype.Float32))
	for _, s := range [][3]int{{64, 64, 64}, {128, 128, 128}, {256, 256, 256}, {512, 512, 512}, {768, 768, 768}, {1024, 1024, 1024}, {1, 1024, 1024}, {4, 1024, 1024}, {8, 1024, 1024}, {16, 1024, 1024}, {32, 1024, 1024}, {64, 10, 256}, {128, 512, 784}, {1024, 1, 1024}} {
		for _, bt := range []bool{false, true} {
			a, ka := heapView[float32](dtype.Float32, s[0], s[2], false)
			b, kb := heapView[float32](dtype.Float32, s[2], s[1], bt)
			d, kd := heapView[float32](dtype.Float32, s[0], s[1], false)
			c := &op.Call{Op: op.MatMul, Out: []op.View{d}, In: []op.View{a, b}}
			c.F[0] = 1
			fl := 2 * float64(s[0]) * float64(s[1]) * float64(s[2])
			rep := max(1, int(1e6/fl))
			n := max(30, int(4e9/fl/float64(rep)))
			tm := best(min(n, 3000), func() {
				for range rep {
					f(c)
				}
			})
			fmt.Printf("%v bt=%v %.1f GFLOP/s  %v\n", s, bt, fl*float64(rep)/tm.Seconds()/1e9, tm/1)
			runtime.KeepAlive(ka)
			runtime.KeepAlive(kb)
			runtime.KeepAlive(kd)
		}
	}
}
