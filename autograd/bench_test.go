package autograd_test

import (
	"testing"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// The benchmarks measure what the graph itself costs: on sim no arithmetic is done.

func benchmarkRig(b *testing.B) (tensor.Exec, *tensor.Tensor) {
	b.Helper()
	dev := sim.New(1 << 30)
	alloc := must2(memory.New(dev, memory.Config{}))
	e := must2(tensor.On(dev, tensor.WithAllocator(alloc)))
	x := must(tensor.Zeros(e, tensor.Float32, 64, 64))
	b.Cleanup(func() {
		x.Release()
		_ = alloc.Close()
		_ = dev.Close()
	})
	b.ReportAllocs()
	return e, x
}

func BenchmarkTensorOp(b *testing.B) {
	e, x := benchmarkRig(b)
	owned := x.On(e.Owned())
	defer owned.Release()
	for b.Loop() {
		must(owned.Add(owned)).Release()
	}
}

func BenchmarkForwardOp(b *testing.B) {
	for name, opts := range map[string][]autograd.Option{"grad": nil, "nograd": {autograd.NoGrad()}} {
		b.Run(name, func(b *testing.B) {
			e, x := benchmarkRig(b)
			g := autograd.NewGraph(e.Device(), append(opts, autograd.WithAllocator(e.Allocator()))...)
			defer g.Release()
			v := g.Input(x, autograd.RequiresGrad())
			for b.Loop() {
				v.Add(v).Release()
			}
		})
	}
}

func BenchmarkTrainingStep(b *testing.B) {
	e, x := benchmarkRig(b)
	w := autograd.NewParameter("w", must(tensor.Zeros(e, tensor.Float32, 64, 64)))
	defer w.Release()
	for b.Loop() {
		g := autograd.NewGraph(e.Device(), autograd.WithAllocator(e.Allocator()))
		v := g.Input(x)
		for range 8 {
			v = v.MatMul(g.Param(w)).Tanh()
		}
		if err := v.Sum(nil, false).Backward(); err != nil {
			b.Fatal(err)
		}
		g.Release()
		w.ZeroGrad()
	}
}
