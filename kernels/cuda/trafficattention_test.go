package cuda_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// attentionWork is attention on tensor cores, or its gradients: of sequences of attentionRows, with as many heads of queries for each of
// attentionHeads of keys.
type attentionWork struct {
	gradient    bool
	grouped     int
	size        int
	dt          tensor.DType
	causal      bool
	drop        float64
	mma, ofFull float64 // instructions for each mma that it may take, and how much of the mma without a mask
}

const attentionHeads, attentionRows = 2, 512

func (w *attentionWork) String() string {
	s := "attention"
	if w.gradient {
		s += "'s gradients"
	}
	if w.causal {
		s += ", causal"
	}
	if w.drop > 0 {
		s += ", dropout"
	}
	s += fmt.Sprintf(", %d heads of %d by %d", w.grouped*attentionHeads, attentionRows, w.size)
	if w.grouped > 1 {
		s += fmt.Sprintf(", %d of keys", attentionHeads)
	}
	return s + ", " + w.dt.String()
}

// products are those of two matrices that a work takes: scores, and their weights times values; for its gradients S, dP, dV and dK, and S, dP and dQ.
func (w *attentionWork) products() float64 {
	if w.gradient {
		return 7
	}
	return 2
}

func (w *attentionWork) work(b *bench) work {
	of := func(heads int) *tensor.Tensor { return b.of(w.dt, 1, heads, attentionRows, w.size) }
	heads := w.grouped * attentionHeads
	q, k, v, a := of(heads), of(attentionHeads), of(attentionHeads), tensor.Attention{IsCausal: w.causal, DropoutP: w.drop, EnableGQA: w.grouped > 1}
	const multiplied = 16 * 8 * 16 // by an mma
	each := float64(heads*attentionRows*attentionRows*w.size) / multiplied
	made := work{name: w.String(), bytes: 2 * (q.Len() + k.Len()) * 2, again: 1000, scatter: 1.3, mma: w.mma, most: w.ofFull * w.products() * each}
	if !w.gradient {
		made.run = func() error {
			out, lse, err := gradients.AttentionForward(q, k, v, a)
			released(out, lse)
			return err
		}
		return made
	}
	out, lse, err := gradients.AttentionForward(q, k, v, a)
	b.keep(out, err)
	b.keep(lse, err)
	made.bytes *= 2
	made.run = func() error {
		g, err := gradients.Attention(out, q, k, v, out, lse, a, false)
		if err == nil {
			g.Release()
		}
		return err
	}
	return made
}

// attentions are works of attention on tensor cores. Instructions for each mma are what limits these kernels, where they run on all cores:
// FlashAttention-2 takes about 4.7, and these at most 1.5 times as many, where nothing is dropped. Of 64 by 64 scores whose keys are all behind
// their queries nothing is computed: 28 of 64 in sequences of 512.
func (b *bench) attentions() (works []work) {
	f16, bf16 := tensor.Float16, tensor.BFloat16
	for _, w := range []attentionWork{
		{false, 1, 64, f16, false, 0, 5.5, 1},
		{false, 1, 64, bf16, false, 0, 5.5, 1},
		{false, 1, 64, bf16, true, 0, 6.9, 36. / 64},
		{false, 1, 64, bf16, false, 0.1, 22, 1},
		{false, 1, 96, bf16, false, 0, 4.9, 1},
		{false, 1, 128, bf16, false, 0, 4.2, 1},
		{false, 2, 64, bf16, false, 0, 5.5, 1},
		{true, 1, 64, f16, false, 0, 4.3, 1},
		{true, 1, 64, bf16, false, 0, 4.3, 1},
		{true, 1, 64, bf16, true, 0, 5.4, 36. / 64},
		{true, 1, 64, bf16, false, 0.1, 16, 1},
		{true, 1, 96, bf16, false, 0, 4.1, 1},
		{true, 1, 128, bf16, false, 0, 3.8, 1},
		{true, 2, 64, bf16, false, 0, 4.3, 1},
		{true, 2, 96, bf16, false, 0, 4.1, 1},
	} {
		works = append(works, w.work(b))
	}
	return works
}
