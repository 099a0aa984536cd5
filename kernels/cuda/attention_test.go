package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/tensor"
)

// exactCase is attention of one call, and what its operands are made of.
type exactCase struct {
	name          string
	heads, groups int
	queries, keys int
	size          int
	scale         float64
	q, k          func(i int, normal float64) float64 // of the element, by its row, from a random number
	causal        bool
	mask          func(t, s int) float64 // added to scores, or nil
	truth         bool                   // mask is of bools: what is -infinity is hidden
}

// lowest stands in a mask for the lowest number of its type, by which some programs hide keys.
const lowest = -math.MaxFloat64

// added is what a mask of a type adds to a score.
func (c *exactCase) added(dt tensor.DType, t, s int) float64 {
	switch x := c.mask(t, s); {
	case x == lowest && dt == tensor.Float16:
		return -65504
	case x == lowest:
		return -0x1.fep127
	default:
		return x
	}
}

func times(x float64) func(int, float64) float64 {
	return func(_ int, n float64) float64 { return x * n }
}

var exactCases = []exactCase{
	{name: "random", heads: 2, groups: 2, queries: 150, keys: 200, size: 64},
	{name: "heads of 96", heads: 1, groups: 1, queries: 130, keys: 100, size: 96},
	{name: "heads of 128, one of keys", heads: 3, groups: 1, queries: 40, keys: 129, size: 128},
	{name: "heads of 40", heads: 1, groups: 1, queries: 33, keys: 65, size: 40},
	{name: "causal", heads: 1, groups: 1, queries: 200, keys: 200, size: 64, causal: true},
	{name: "causal, fewer keys", heads: 1, groups: 1, queries: 150, keys: 70, size: 64, causal: true},
	{name: "causal, fewer queries", heads: 1, groups: 1, queries: 70, keys: 150, size: 128, causal: true},
	{name: "large scores", heads: 1, groups: 1, queries: 70, keys: 130, size: 64, q: times(30), k: times(30)},
	{name: "scores that grow", heads: 1, groups: 1, queries: 40, keys: 260, size: 64, k: func(i int, n float64) float64 { return n * float64(i) / 16 }},
	{name: "scores that grow by the least that is corrected", heads: 1, groups: 1, queries: 20, keys: 400, size: 64, scale: 1,
		q: func(int, float64) float64 { return 0.125 }, k: func(i int, _ float64) float64 { return float64(i/64) * 0.6875 }},
	{name: "scores that fall", heads: 1, groups: 1, queries: 40, keys: 260, size: 64, k: func(i int, n float64) float64 { return n * float64(260-i) / 16 }},
	{name: "a negative scale", heads: 1, groups: 1, queries: 70, keys: 130, size: 64, scale: -0.7},
	{name: "hidden rows", heads: 1, groups: 1, queries: 70, keys: 130, size: 64, truth: true, mask: func(t, s int) float64 {
		if t%3 == 1 || (s+t)%5 == 0 {
			return math.Inf(-1)
		}
		return 0
	}},
	{name: "rows of the lowest number", heads: 1, groups: 1, queries: 70, keys: 130, size: 64, mask: func(t, s int) float64 {
		if t%3 == 1 || s > 2*t {
			return lowest
		}
		return float64(s%7) / 4
	}},
}

// The result of kernels on tensor cores errs no more than attention in the steps of PyTorch's own fallback does, which rounds scores, weights and
// results to half precision: both against float64.
func TestAttention_ErrsNoMoreThanInStepsOfHalfPrecision(t *testing.T) {
	everyway(t, func(t *testing.T, d device.Device, _ *cudatest.Rig) {
		e, err := tensor.On(d)
		require.NoError(t, err)
		b := &bench{t: t, e: e.Owned(), gen: tensor.NewGenerator(1)}
		for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			for _, c := range exactCases {
				t.Run(fmt.Sprintf("%s, %s", c.name, dt), func(t *testing.T) { c.run(t, &bench{t: t, e: b.e, gen: b.gen}, dt) })
			}
		}
	})
}

func (c *exactCase) run(t *testing.T, b *bench, dt tensor.DType) {
	rng := rand.New(rand.NewPCG(5, 7))
	operand := func(heads, rows int, f func(int, float64) float64) (*tensor.Tensor, []float64) {
		v := make([]float32, heads*rows*c.size)
		for i := range v {
			x := rng.NormFloat64()
			if f != nil {
				x = f(i/c.size%rows, x)
			}
			v[i] = float32(x)
		}
		x := b.keep(b.keep(tensor.FromSlice(b.e, v, 1, heads, rows, c.size)).To(dt))
		return x, b.values(x)
	}
	q, qs := operand(c.heads, c.queries, c.q)
	k, ks := operand(c.groups, c.keys, c.k)
	v, vs := operand(c.groups, c.keys, nil)
	a := tensor.Attention{IsCausal: c.causal, Scale: c.scale, EnableGQA: c.heads != c.groups, Mask: c.maskOf(b, dt)}
	out, lse, err := gradients.AttentionForward(q, k, v, a)
	require.NoError(t, err)
	b.keep(out, nil)
	b.keep(lse, nil)
	got, gotLSE := b.values(out), b.values(lse)
	half := func(x float64) float64 { return b.rounded(dt, x) }
	exact := func(x float64) float64 { return x }
	var worst, worstInSteps float64
	for h := range c.heads {
		for row := range c.queries {
			want, wantLSE := c.row(dt, qs, ks, vs, h, row, exact)
			steps, _ := c.row(dt, qs, ks, vs, h, row, half)
			at := h*c.queries + row
			for i := range want {
				x := got[at*c.size+i]
				require.False(t, math.IsNaN(x), "head %d, row %d", h, row)
				worst, worstInSteps = max(worst, math.Abs(x-want[i])), max(worstInSteps, math.Abs(half(steps[i])-want[i]))
			}
			if math.IsInf(wantLSE, -1) {
				require.True(t, math.IsInf(gotLSE[at], -1), "row %d sees nothing", row)
				continue
			}
			require.InDelta(t, wantLSE, gotLSE[at], 0x1p-20*(2+math.Abs(wantLSE)), "row %d", row)
		}
	}
	require.LessOrEqual(t, worst, worstInSteps)
}

// row is the result of one row, and its lse; round rounds what PyTorch's steps would keep in half precision.
func (c *exactCase) row(dt tensor.DType, q, k, v []float64, h, row int, round func(float64) float64) (out []float64, lse float64) {
	group, scale := h/(c.heads/c.groups), c.scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(c.size))
	}
	scores, most, sum := make([]float64, c.keys), math.Inf(-1), 0.0
	for s := range scores {
		for i := range c.size {
			scores[s] += q[(h*c.queries+row)*c.size+i] * k[(group*c.keys+s)*c.size+i]
		}
		scores[s] = round(round(scores[s]) * float64(float32(scale)))
		if c.mask != nil {
			scores[s] = round(scores[s] + c.added(dt, row, s))
		}
		if c.causal && s > row {
			scores[s] = math.Inf(-1)
		}
		most = max(most, scores[s])
	}
	out = make([]float64, c.size)
	if math.IsInf(most, -1) {
		return out, most
	}
	for s := range scores {
		sum += math.Exp(scores[s] - most)
	}
	for s := range scores {
		w := round(math.Exp(scores[s]-most) / sum)
		for i := range out {
			out[i] += w * v[(group*c.keys+s)*c.size+i]
		}
	}
	return out, most + math.Log(sum)
}

func (c *exactCase) maskOf(b *bench, dt tensor.DType) *tensor.Tensor {
	if c.mask == nil {
		return nil
	}
	added, truths := make([]float32, c.queries*c.keys), make([]bool, c.queries*c.keys)
	for i := range added {
		x := c.added(dt, i/c.keys, i%c.keys)
		added[i], truths[i] = float32(x), !math.IsInf(x, -1)
	}
	if c.truth {
		return b.keep(tensor.FromSlice(b.e, truths, c.queries, c.keys))
	}
	return b.keep(b.keep(tensor.FromSlice(b.e, added, c.queries, c.keys)).To(dt))
}

// values are a tensor's elements.
func (b *bench) values(x *tensor.Tensor) []float64 {
	b.t.Helper()
	v, err := tensor.ToSlice[float32](b.keep(x.To(tensor.Float32)))
	require.NoError(b.t, err)
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// rounded is x in a half type.
func (b *bench) rounded(dt tensor.DType, x float64) float64 {
	digits, lowest := 11, -24
	if dt == tensor.BFloat16 {
		digits, lowest = 8, -133
	}
	if x == 0 || math.IsInf(x, 0) {
		return x
	}
	_, e := math.Frexp(x)
	unit := math.Ldexp(1, max(e-digits, lowest))
	if x = math.RoundToEven(x/unit) * unit; dt == tensor.Float16 && math.Abs(x) > 65504 {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return x
}
