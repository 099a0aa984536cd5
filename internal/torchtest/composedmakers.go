package torchtest

import (
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Makers of more operations that are made of others: rearrangements, products, distances and losses.
var composedMakers = slices.Concat(times(4, rearranged), times(3, windowed), times(3, gated), times(2, vectorProducts), times(4, distances), times(5, marginLosses))

func rearranged(g *generator) {
	v := g.dims(1, 4)
	n := len(v.shape)
	d := g.IntN(n)
	switch op := oneOf(g, "PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "Rot90", "Unflatten", "Windows", "TakeFlat", "MaskedScatter", "Trace"); op {
	case "PixelShuffle":
		shape := append(g.shape(0, 1), 4*(1+g.IntN(2)), 1+g.IntN(3), 1+g.IntN(3))
		g.call(op, g.like(v.dtype, shape), oneOf(g, 2, 2, 1))
	case "PixelUnshuffle":
		shape := append(g.shape(0, 1), 1+g.IntN(2), 2*(1+g.IntN(2)), 2*(1+g.IntN(2)))
		g.call(op, g.like(v.dtype, shape), oneOf(g, 2, 2, 1))
	case "ChannelShuffle":
		shape := append([]int{1 + g.IntN(2), 2 * (1 + g.IntN(3))}, g.shape(1, 2)...)
		g.call(op, g.like(v.dtype, shape), oneOf(g, 2, 2, 1))
	case "Rot90":
		if n < 2 {
			return
		}
		p := g.Perm(n)
		g.call(op, v.name, g.IntN(9)-4, p[0]-n*g.IntN(2), p[1])
	case "Unflatten":
		sizes := g.reshaped(v.shape[d : d+1])
		if len(sizes) > 0 && v.shape[d] > 0 {
			g.call(op, v.name, d-n*g.IntN(2), sizes)
		}
	case "Windows":
		if v.shape[d] > 0 {
			g.call(op, v.name, d-n*g.IntN(2), 1+g.IntN(v.shape[d]), 1+g.IntN(3))
		}
	case "TakeFlat":
		if product(v.shape) > 0 {
			g.call(op, v.name, g.integers("int64", g.shape(0, 2), product(v.shape)))
		}
	case "MaskedScatter":
		g.call(op, v.name, g.input("bool", g.narrower(v.shape)), g.like(v.dtype, []int{product(v.shape)}))
	case "Trace":
		g.call(op, g.dims(2, 2).name)
	}
}

func windowed(g *generator) {
	pair := func(least, most int) []int { return []int{least + g.IntN(most), least + g.IntN(most)} }
	kernel, stride, padding := pair(1, 3), pair(1, 2), pair(0, 2)
	size := []int{3 + g.IntN(3), 3 + g.IntN(3)}
	w := map[string]any{"Kernel": kernel, "Stride": stride, "Padding": padding, "Dilation": []int{1}}
	dt := dtypes[g.main]
	if g.chance(0.5) {
		g.call("Unfold", g.like(dt, append(g.shape(0, 1), 1+g.IntN(2), size[0], size[1])), w)
		return
	}
	count := 1
	for i := range 2 {
		count *= (size[i]+2*padding[i]-kernel[i])/stride[i] + 1
	}
	g.call("Fold", g.like(dt, append(g.shape(0, 1), kernel[0]*kernel[1]*(1+g.IntN(2)), count)), size[0], size[1], w)
}

func gated(g *generator) {
	v := g.plain(g.floats(1, 3))
	switch op := oneOf(g, "GLU", "NanToNum", "Softmin", "ClampTo"); op {
	case "GLU":
		shape := slices.Clone(v.shape)
		d := g.IntN(len(shape))
		shape[d] = 2 * (1 + g.IntN(2))
		g.call(op, g.plainLike(v.dtype, shape), d-len(shape)*g.IntN(2))
	case "NanToNum":
		g.call(op, v.name, oneOf(g, 0, 1.5), oneOf(g, 2, 100), oneOf(g, -3, 0))
	case "Softmin":
		g.call(op, v.name, g.dim(v))
	case "ClampTo":
		lo, hi := any(g.plainLike(v.dtype, g.narrower(v.shape))), any(g.plainLike(v.dtype, g.narrower(v.shape)))
		switch g.IntN(4) {
		case 0:
			lo = nil
		case 1:
			hi = nil
		}
		g.call(op, v.name, lo, hi)
	}
}

func vectorProducts(g *generator) {
	v := g.plain(g.floats(0, 2))
	if g.chance(0.5) {
		g.call("Kron", v.name, g.plainLike(v.dtype, g.shape(0, 2)))
		return
	}
	shape := g.shape(1, 3)
	d := g.IntN(len(shape))
	shape[d] = 3
	g.call("Cross", g.plainLike(v.dtype, shape), g.plainLike(v.dtype, shape), d-len(shape)*g.IntN(2))
}

func distances(g *generator) {
	v := g.plain(g.floats(1, 3))
	p := oneOf[any](g, 2, 2, 1, 3, "inf")
	switch op := oneOf(g, "Normalize", "CosineSimilarity", "PairwiseDistance", "CDist"); op {
	case "Normalize":
		g.call(op, v.name, p, g.dim(v), oneOf(g, 1e-12, 0.5))
	case "CosineSimilarity":
		g.call(op, v.name, g.plainLike(v.dtype, v.shape), g.dim(v), oneOf(g, 1e-8, 0.5))
	case "PairwiseDistance":
		g.call(op, v.name, g.plainLike(v.dtype, v.shape), p, oneOf(g, 1e-6, 0.25), g.chance(0.5))
	case "CDist":
		if len(v.shape) < 2 {
			return
		}
		shape := slices.Clone(v.shape)
		shape[len(shape)-2] = g.size()
		g.call(op, v.name, g.plainLike(v.dtype, shape), oneOf[any](g, p, 0))
	}
}

// signs makes an input of 1 and -1.
func (g *generator) signs(dtype tensor.DType, shape []int) string {
	words := make([]string, product(shape))
	for i := range words {
		words[i] = oneOf(g, "1", "-1")
	}
	name, _ := g.add(Step{Op: "Input", DType: dtype.String(), Base: shape, Data: strings.Join(words, " ")})
	return name
}

func marginLosses(g *generator) {
	r := int(oneOf(g, autograd.MeanReduction, autograd.MeanReduction, autograd.SumReduction, autograd.NoReduction))
	v := g.plain(g.floats(1, 3))
	margin := oneOf(g, 1, 0, 0.5)
	other := func() string { return g.plainLike(v.dtype, v.shape) }
	if g.special > 0 {
		return // as for the others, which choose what they are given
	}
	switch op := oneOf(g, "MarginRankingLoss", "HingeEmbeddingLoss", "CosineEmbeddingLoss", "TripletMarginLoss", "SoftMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
		"PoissonNLLLoss", "GaussianNLLLoss"); op {
	case "MarginRankingLoss":
		g.call(op, v.name, other(), g.signs(v.dtype, v.shape), margin, r)
	case "HingeEmbeddingLoss":
		g.call(op, v.name, g.signs(v.dtype, v.shape), margin, r)
	case "SoftMarginLoss":
		g.call(op, v.name, g.signs(v.dtype, v.shape), r)
	case "CosineEmbeddingLoss":
		v = g.plain(g.floats(2, 2))
		g.call(op, v.name, other(), g.signs(v.dtype, v.shape[:1]), oneOf(g, 0, 0.5), r)
	case "TripletMarginLoss":
		v = g.plain(g.floats(2, 2))
		g.call(op, v.name, other(), other(), margin, map[string]any{"P": oneOf(g, 2, 1), "Eps": 1e-6, "Swap": g.chance(0.3)}, r)
	case "MultiLabelSoftMarginLoss":
		v = g.plain(g.floats(2, 2))
		var weight any
		if g.chance(0.4) {
			weight = g.weights(v.dtype, v.shape[1:])
		}
		g.call(op, v.name, g.inputOf(v.dtype.String(), v.shape, unit), weight, r)
	case "MultiMarginLoss":
		v = g.plain(g.floats(2, 2))
		if product(v.shape) > 0 {
			g.call(op, v.name, g.integers("int64", v.shape[:1], v.shape[1]), oneOf(g, 1, 0.5), map[string]any{"P": 1 + g.IntN(2)}, r)
		}
	case "PoissonNLLLoss":
		rates := g.chance(0.4)
		if rates {
			v.name = g.inputOf(v.dtype.String(), v.shape, positive)
		}
		g.call(op, v.name, g.inputOf(v.dtype.String(), v.shape, positive), map[string]any{"Rates": rates, "Full": g.chance(0.4), "Eps": 1e-8}, r)
	case "GaussianNLLLoss":
		g.call(op, v.name, other(), g.inputOf(v.dtype.String(), v.shape, positive), map[string]any{"Full": g.chance(0.4), "Eps": 1e-6}, r)
	}
}
