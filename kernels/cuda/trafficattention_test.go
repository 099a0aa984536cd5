package cuda_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// attentions are works of attention on tensor cores. Instructions for each mma are what limits these kernels, where they run on all cores.
func (b *bench) attentions() []work {
	const heads, rows = 2, 512
	half := func(dt tensor.DType, size int) (q, k, v *tensor.Tensor) {
		return b.of(dt, 1, heads, rows, size), b.of(dt, 1, heads, rows, size), b.of(dt, 1, heads, rows, size)
	}
	forward := func(dt tensor.DType, size int, what string, a tensor.Attention, mma float64) work {
		q, k, v := half(dt, size)
		return work{name: fmt.Sprintf("attention%s, 2 heads of 512 by %d, %s", what, size, dt), bytes: 4 * 2 * heads * rows * size, run: func() error {
			out, lse, err := gradients.AttentionForward(q, k, v, a)
			released(out, lse)
			return err
		}, again: 1000, scatter: 1.3, mma: mma}
	}
	backward := func(dt tensor.DType, size int, what string, a tensor.Attention, mma float64) work {
		q, k, v := half(dt, size)
		out, lse, err := gradients.AttentionForward(q, k, v, a)
		b.keep(out, err)
		b.keep(lse, err)
		return work{name: fmt.Sprintf("attention's gradients%s, 2 heads of 512 by %d, %s", what, size, dt), bytes: 8 * 2 * heads * rows * size, run: func() error {
			g, err := gradients.Attention(out, q, k, v, out, lse, a, false)
			if err == nil {
				g.Release()
			}
			return err
		}, again: 1000, scatter: 1.3, mma: mma}
	}
	causal, drops := tensor.Attention{IsCausal: true}, tensor.Attention{DropoutP: 0.1}
	f16, bf16 := tensor.Float16, tensor.BFloat16
	return []work{
		forward(f16, 64, "", tensor.Attention{}, 6),
		forward(bf16, 64, "", tensor.Attention{}, 6),
		forward(bf16, 64, ", causal", causal, 7.2),
		forward(bf16, 64, ", dropout", drops, 40),
		forward(bf16, 96, "", tensor.Attention{}, 6),
		forward(bf16, 128, "", tensor.Attention{}, 6),
		backward(f16, 64, "", tensor.Attention{}, 4.5),
		backward(bf16, 64, "", tensor.Attention{}, 4.5),
		backward(bf16, 64, ", causal", causal, 7),
		backward(bf16, 64, ", dropout", drops, 40),
		backward(bf16, 96, "", tensor.Attention{}, 6),
		backward(bf16, 128, "", tensor.Attention{}, 6),
	}
}
