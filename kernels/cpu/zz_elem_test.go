package cpu

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/tensor/dtype"
)

func TestElemSpeed(t *testing.T) {
	runtime.GOMAXPROCS(1)
	var table [op.Count]op.Row
	for _, r := range Rows() {
		table[r.Op] = r
	}
	show := func(name string, c *op.Call, n int) {
		rep := max(1, 100000/n)
		f := table[c.Op].Funcs[c.Key()]
		d := best(400, func() {
			for range rep {
				f(c)
			}
		})
		fmt.Printf("EL %-34s %8.3f ns/elem %10.0f ns\n", name, float64(d.Nanoseconds())/float64(rep)/float64(n), float64(d.Nanoseconds())/float64(rep))
	}
	for _, id := range []op.ID{op.Add, op.Mul, op.Copy, op.ReLU, op.ReLUGrad, op.Exp, op.Log, op.Tanh, op.Sigmoid, op.GELU, op.GELUGrad, op.GELUTanh, op.SiLU, op.Sin, op.Lt} {
		a, k1 := heapView[float32](dtype.Float32, 16, 1024, false)
		b, k2 := heapView[float32](dtype.Float32, 16, 1024, false)
		d, k3 := heapView[float32](dtype.Float32, 16, 1024, false)
		for i := range k1 {
			k1[i] = float32(i%97)/10 - 5
			k2[i] = float32(i%89)/10 - 5
		}
		c := &op.Call{Op: id, Out: []op.View{d}, In: []op.View{a, b}}
		if _, in, _ := id.Arity(); in == 1 {
			c.In = c.In[:1]
		}
		if id == op.Lt {
			c.Out[0].DType = dtype.Bool
		}
		c.F[0] = 1
		show(id.String(), c, 16*1024)
		for i := range c.In {
			c.In[i].DType = dtype.Float16
		}
		if id != op.Lt {
			c.Out[0].DType = dtype.Float16
		}
		show(id.String()+" f16", c, 16*1024)
		runtime.KeepAlive(k1)
		runtime.KeepAlive(k2)
		runtime.KeepAlive(k3)
	}
	const rows, columns = 256, 1024
	for _, name := range []string{"contiguous", "row", "column", "scalar", "transposed", "row10", "small"} {
		x, k1 := heapView[float32](dtype.Float32, rows, columns, false)
		y, k2 := heapView[float32](dtype.Float32, rows, columns, false)
		d, k3 := heapView[float32](dtype.Float32, rows, columns, false)
		switch name {
		case "row":
			y.Strides[0] = 0
		case "column":
			y.Strides[1] = 0
		case "scalar":
			y.Strides[0], y.Strides[1] = 0, 0
		case "transposed":
			y.Strides[0], y.Strides[1] = 1, rows
		case "row10":
			for _, v := range []*op.View{&x, &y, &d} {
				v.Shape[0], v.Shape[1] = 1024, 10
				v.Strides[0] = 10
			}
			y.Strides[0] = 0
		case "small":
			for _, v := range []*op.View{&x, &y, &d} {
				v.Shape[0], v.Shape[1] = 2, 2
				v.Strides[0] = 2
			}
		}
		c := &op.Call{Op: op.Add, Out: []op.View{d}, In: []op.View{x, y}}
		c.F[0] = 1
		show("add "+name, c, x.Len())
		c = &op.Call{Op: op.Copy, Out: []op.View{d}, In: []op.View{y}}
		show("copy "+name, c, x.Len())
		runtime.KeepAlive(k1)
		runtime.KeepAlive(k2)
		runtime.KeepAlive(k3)
	}
	for _, s := range [][2]int{{1024, 10}, {256, 256}, {8, 32000}} {
		for _, id := range []op.ID{op.Softmax, op.LogSoftmax, op.SoftmaxGrad, op.Sum, op.Max, op.ArgMax} {
			x, k1 := heapView[float32](dtype.Float32, s[0], s[1], false)
			d, k2 := heapView[float32](dtype.Float32, s[0], s[1], false)
			c := &op.Call{Op: id, Out: []op.View{d}, In: []op.View{x}}
			if id == op.SoftmaxGrad {
				c.In = append(c.In, x)
			}
			if id == op.ArgMax {
				c.Out[0].DType = dtype.Int64
				c.I[0] = 1
			}
			if id >= op.Sum && id <= op.ArgMax {
				c.Out[0].Shape[1] = 1
				c.Out[0].Strides[0] = 1
				show(fmt.Sprint(id, s, " rows"), c, s[0]*s[1])
				c.I[0] = 0
				c.Out[0].Shape[0], c.Out[0].Shape[1] = 1, s[1]
				c.Out[0].Strides[0] = s[1]
				show(fmt.Sprint(id, s, " columns"), c, s[0]*s[1])
			} else {
				show(fmt.Sprint(id, s), c, s[0]*s[1])
			}
			runtime.KeepAlive(k1)
			runtime.KeepAlive(k2)
		}
	}
}
