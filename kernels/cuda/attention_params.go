package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// attentionWords writes an Attention of src/attention.h, word by word.
type attentionWords struct {
	w  [64]uint64 // 7 of sizes, 36 of strides, 2 of Philox and 2 of numbers, of which double has two words
	at int
}

func (w *attentionWords) pair(a, b int) {
	w.w[w.at] = pair(uint32(a), uint32(b))
	w.at++
}

// strip appends the strides of a view, and leaves them 0 if it is not there.
func (w *attentionWords) strip(v *op.View) {
	if v != nil {
		for i, s := range v.Strides[:4] {
			w.w[w.at+i] = uint64(s)
		}
	}
	w.at += 4
}

// numbers appends two of the type of computation: two words, or the halves of one.
func (w *attentionWords) numbers(d dtype.DType, a, b float64) {
	if d == dtype.Float64 {
		w.w[w.at], w.w[w.at+1] = math.Float64bits(a), math.Float64bits(b)
		w.at += 2
		return
	}
	w.w[w.at] = pair(math.Float32bits(float32(a)), math.Float32bits(float32(b)))
	w.at++
}

// first is the first of views, or nil.
func first(views []op.View) *op.View {
	if len(views) == 0 {
		return nil
	}
	return &views[0]
}

// pack writes the sizes, strides and scalars of a call that computes result.
func (a *attention) pack(w *attentionWords, c *op.Call, tiles, windows int, result *op.View) {
	heads, queries := a.q.Shape[1], a.q.Shape[2]
	if heads == 0 { // the gradients of keys and values are those of heads without queries
		heads, queries = a.k.Shape[1], 0
	}
	keys, group, kind, factor := a.k.Shape[2], heads/max(1, a.k.Shape[1]), 0, 0.0
	mask := first(a.mask)
	if mask != nil {
		kind = 2
		if mask.DType == dtype.Bool {
			kind = 1
		}
	}
	if c.F[1] < 1 { // else all are dropped, and a factor of infinity would make NaN of their 0
		factor = 1 / (1 - c.F[1])
	}
	w.pair(a.q.Shape[0], heads)
	w.pair(group, queries)
	w.pair(keys, a.q.Shape[3])
	w.pair(a.v.Shape[3], truth(c.I[0] != 0))
	key, drops := uint64(c.I[1]), truth(c.F[1] != 0)
	if v := op.AttentionSeed(c); v != nil && drops != 0 {
		key, drops = uint64(v.Ptr), seeded
	}
	w.pair(kind, drops)
	// The parameters are words; the structure's 32-bit numbers go in pairs, so that its strides lie at multiples of 8 bytes as C wants.
	// An element is kept if its random number of 24 bits is below this; random numbers come in blocks of four along the keys.
	w.pair(int(math.Ceil((1-c.F[1])*(1<<24))), (keys+3)/4)
	w.pair(tiles, windows)
	for _, v := range []*op.View{a.q, a.k, a.v, a.out, a.grad, result, a.second, mask, first(a.dmask)} {
		w.strip(v)
	}
	w.w[w.at], w.w[w.at+1] = key, uint64(c.I[2])
	w.at += 2
	w.numbers(a.q.DType, c.F[0], factor)
}

// seeded is SEEDED in src/attention.h.
const seeded = 2

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// add appends the parameters of a launch: an Attention and the Operands.
func (a *attention) add(p *device.Params, c *op.Call, tiles, windows int, result *op.View) {
	var w attentionWords
	a.pack(&w, c, tiles, windows, result)
	p.Words(w.w[:w.at]...)
	var grad, second, mask, dmask device.Ptr
	if a.second != nil {
		second = a.second.Ptr
	}
	if a.grad != nil {
		grad = a.grad.Ptr
	}
	if m := first(a.mask); m != nil {
		mask = m.Ptr
	}
	if m := first(a.dmask); m != nil {
		dmask = m.Ptr
	}
	p.Words(uint64(a.q.Ptr), uint64(a.k.Ptr), uint64(a.v.Ptr), uint64(grad), uint64(mask), uint64(a.lse), uint64(a.delta),
		uint64(result.Ptr), uint64(second), uint64(dmask))
}
