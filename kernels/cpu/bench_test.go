package cpu_test

import (
	"fmt"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
)

// bench makes contiguous views of float32, or of type d, filled with ones, on a device of its own.
type bench struct {
	*testing.B
	dev *host.Device
	d   dtype.DType
}

func newBench(b *testing.B, d dtype.DType) *bench {
	dev := host.New()
	b.Cleanup(func() {
		if err := dev.Close(); err != nil {
			b.Error(err)
		}
	})
	return &bench{b, dev, d}
}

func (b *bench) view(shape ...int) op.View {
	v := op.View{DType: b.d, NDim: len(shape)}
	step := 1
	for d := len(shape) - 1; d >= 0; d-- {
		v.Shape[d], v.Strides[d] = shape[d], step
		step *= shape[d]
	}
	p, err := b.dev.Malloc(uint64(step * b.d.Size()))
	if err != nil {
		b.Fatal(err)
	}
	v.Ptr = p
	c := op.Call{Op: op.Fill, Stream: b.dev.DefaultStream(), Out: []op.View{v}}
	c.F[0], c.I[0] = 1, 1
	if err := kernels.Launch(&c); err != nil {
		b.Fatal(err)
	}
	return v
}

func transposed(v op.View) op.View {
	v.Shape[0], v.Shape[1] = v.Shape[1], v.Shape[0]
	v.Strides[0], v.Strides[1] = v.Strides[1], v.Strides[0]
	return v
}

func (b *bench) run(c *op.Call) {
	c.Stream = b.dev.DefaultStream()
	b.ReportAllocs()
	for b.Loop() {
		if err := kernels.Launch(c); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) perSecond(amount float64, unit string) {
	b.ReportMetric(amount*float64(b.N)/b.Elapsed().Seconds()/1e9, unit)
}

func BenchmarkMatMul(b *testing.B) {
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.Float16} {
		for _, s := range [][3]int{{64, 64, 64}, {256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {1, 1024, 1024}, {64, 10, 256}, {128, 512, 784}} {
			for _, bt := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/%dx%dx%d/bt=%v", d, s[0], s[1], s[2], bt), func(tb *testing.B) {
					b := newBench(tb, d)
					right := b.view(s[2], s[1])
					if bt {
						right = transposed(b.view(s[1], s[2]))
					}
					c := op.Call{Op: op.MatMul, Out: []op.View{b.view(s[0], s[1])}, In: []op.View{b.view(s[0], s[2]), right}}
					c.F[0] = 1
					b.run(&c)
					b.perSecond(2*float64(s[0])*float64(s[1])*float64(s[2]), "GFLOP/s")
				})
			}
		}
	}
}

func BenchmarkElementwise(b *testing.B) {
	for _, id := range []op.ID{op.Add, op.Mul, op.Copy, op.ReLU, op.Exp, op.Log, op.Tanh, op.Sigmoid, op.GELU, op.GELUTanh, op.SiLU, op.Sin} {
		for _, d := range []dtype.DType{dtype.Float32, dtype.Float16} {
			b.Run(fmt.Sprintf("%s/%s", id, d), func(tb *testing.B) {
				const n = 16 << 10
				b := newBench(tb, d)
				c := op.Call{Op: id, Out: []op.View{b.view(n)}, In: []op.View{b.view(n)}}
				if _, in, _ := id.Arity(); in == 2 {
					c.In = append(c.In, b.view(n))
				}
				c.F[0] = 1
				b.run(&c)
				b.perSecond(n, "Gelem/s")
			})
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	const rows, columns = 256, 1024
	for _, name := range []string{"contiguous", "row", "column", "scalar", "transposed", "small"} {
		b.Run(name, func(tb *testing.B) {
			b := newBench(tb, dtype.Float32)
			x, y := b.view(rows, columns), b.view(rows, columns)
			switch name {
			case "row":
				y.Strides[0] = 0
			case "column":
				y.Strides[1] = 0
			case "scalar":
				y.Strides[0], y.Strides[1] = 0, 0
			case "transposed":
				y = transposed(b.view(columns, rows))
			case "small":
				x, y = b.view(2, 2), b.view(2, 2)
			}
			c := op.Call{Op: op.Add, Out: []op.View{b.view(x.Shape[0], x.Shape[1])}, In: []op.View{x, y}}
			c.F[0] = 1
			b.run(&c)
			b.perSecond(float64(x.Len()), "Gelem/s")
		})
	}
}

func BenchmarkSoftmax(b *testing.B) {
	for _, s := range [][2]int{{4096, 10}, {1024, 256}, {64, 32000}} {
		b.Run(fmt.Sprintf("%dx%d", s[0], s[1]), func(tb *testing.B) {
			b := newBench(tb, dtype.Float32)
			c := op.Call{Op: op.Softmax, Out: []op.View{b.view(s[0], s[1])}, In: []op.View{b.view(s[0], s[1])}}
			b.run(&c)
			b.perSecond(float64(s[0]*s[1]), "Gelem/s")
		})
	}
}

func BenchmarkSum(b *testing.B) {
	for _, s := range []struct {
		name          string
		rows, columns int
		out           [2]int
	}{{"all", 1, 1 << 20, [2]int{1, 1}}, {"rows", 1024, 1024, [2]int{1024, 1}}, {"columns", 1024, 1024, [2]int{1, 1024}}, {"bias10", 65536, 10, [2]int{1, 10}}} {
		b.Run(s.name, func(tb *testing.B) {
			b := newBench(tb, dtype.Float32)
			c := op.Call{Op: op.Sum, Out: []op.View{b.view(s.out[0], s.out[1])}, In: []op.View{b.view(s.rows, s.columns)}}
			b.run(&c)
			b.perSecond(float64(s.rows*s.columns), "Gelem/s")
		})
	}
}

func BenchmarkAttention(b *testing.B) {
	for _, n := range []int{256, 1024} {
		for _, backward := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/backward=%v", n, backward), func(tb *testing.B) {
				const heads, depth = 8, 64
				b := newBench(tb, dtype.Float32)
				q, k, v, out := b.view(1, heads, n, depth), b.view(1, heads, n, depth), b.view(1, heads, n, depth), b.view(1, heads, n, depth)
				lse := b.view(1, heads, n)
				c := op.Call{Op: op.Attention, Out: []op.View{out, lse}, In: []op.View{q, k, v}}
				products := 2.0
				if backward {
					c = op.Call{Op: op.AttentionGrad, Out: []op.View{b.view(1, heads, n, depth), b.view(1, heads, n, depth), b.view(1, heads, n, depth)},
						In: []op.View{out, q, k, v, out, lse}}
					products = 5
				}
				c.F[0] = 0.125
				b.run(&c)
				b.perSecond(products*2*heads*float64(n*n*depth), "GFLOP/s")
			})
		}
	}
}

// One query of each head, as in decoding, over a cache of keys; heads of queries share keys in groups.
func BenchmarkAttentionDecode(b *testing.B) {
	const keys, depth = 1024, 64
	for _, d := range []dtype.DType{dtype.Float32, dtype.BFloat16} {
		for _, shared := range []int{8, 2} {
			for _, queries := range []int{1, 4, 16, 32} {
				b.Run(fmt.Sprintf("%v/heads=8,%d/queries=%d", d, shared, queries), func(tb *testing.B) {
					b := newBench(tb, d)
					q, k, v := b.view(1, 8, queries, depth), b.view(1, shared, keys, depth), b.view(1, shared, keys, depth)
					out := b.view(1, 8, queries, depth)
					b.d = dtype.Float32
					c := op.Call{Op: op.Attention, Out: []op.View{out, b.view(1, 8, queries)}, In: []op.View{q, k, v}}
					c.F[0] = 0.125
					b.run(&c)
				})
			}
		}
	}
}
