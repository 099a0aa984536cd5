package torchtest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Makers of what few programs call: pieces and views of a least number of dimensions, special functions, volumes.
var rareMakers = slices.Concat(times(2, raised), times(2, specialFunctions), times(2, volumes), times(1, rareNorms), times(6, formats))

// raised are views of at least so many dimensions, pieces along one of the first, and orders turned around.
func raised(g *generator) {
	v := g.dims(0, 4)
	switch op := oneOf(g, "AtLeast1d", "AtLeast2d", "AtLeast3d", "HSplit", "VSplit", "DSplit", "FlipLR", "FlipUD", "DiagFlat"); op {
	case "HSplit", "VSplit", "DSplit":
		d := map[string]int{"HSplit": min(1, max(len(v.shape)-1, 0)), "DSplit": 2}[op]
		n := 1 + g.IntN(3)
		if d < len(v.shape) && v.shape[d] > 0 && g.chance(0.8) {
			for v.shape[d]%n != 0 {
				n--
			}
		}
		g.call(op, v.name, n)
	case "DiagFlat":
		if product(v.shape) < 10 {
			g.call(op, v.name, g.IntN(5)-2)
		}
	default:
		g.call(op, v.name)
	}
}

func specialFunctions(g *generator) {
	v := g.plain(g.fit(g.any()))
	switch op := oneOf(g, "Ndtr", "Entr", "Xlog1py", "MVLgamma"); op {
	case "Xlog1py":
		g.call(op, v.name, g.plainLike(v.dtype, g.narrower(v.shape)))
	case "MVLgamma":
		p := 1 + g.IntN(3)
		shifted, ok := g.call("AddScalar", g.inputOf(v.dtype.String(), v.shape, positive), float64(p)/2)
		if ok {
			g.call(op, shifted, p)
		}
	default:
		g.call(op, v.name)
	}
}

// formats are what images in a memory format go through.
func formats(g *generator) {
	v := g.info(g.like(dtypes[g.main], []int{g.small(), g.small(), 2 + g.IntN(3), 2 + g.IntN(3)}))
	if g.chance(0.2) {
		v = g.info(g.like(v.dtype, []int{g.small(), g.small(), g.small(), g.small()}))
	}
	name, ok := g.call("ToMemoryFormat", v.name, int(oneOf(g, tensor.ChannelsLast, tensor.ChannelsLast, tensor.ContiguousFormat)))
	if !ok {
		return
	}
	for range 1 + g.IntN(3) {
		if g.ended {
			return
		}
		x := g.info(name)
		switch op := oneOf(g, "ReLU", "AddScalar", "Add", "Mul", "Maximum", "Cat", "Flip", "MaxPool2d", "AdaptiveAvgPool2d", "Conv2d", "Slice"); op {
		case "ReLU":
			name, ok = g.call(op, name)
		case "AddScalar":
			name, ok = g.call(op, name, 1.0)
		case "Add", "Mul", "Maximum":
			other := g.like(x.dtype, g.narrower(x.shape))
			if g.chance(0.5) {
				name, other = other, name
			}
			name, ok = g.call(op, name, other)
		case "Cat":
			name, ok = g.call(op, []string{name, g.like(x.dtype, x.shape)}, g.IntN(4))
		case "Flip":
			name, ok = g.call(op, name, []int{g.IntN(4)})
		case "MaxPool2d":
			name, ok = g.call(op, name, map[string]any{"Kernel": []int{1 + g.IntN(min(x.shape[2], x.shape[3]))}})
		case "AdaptiveAvgPool2d":
			name, ok = g.call(op, name, []int{1 + g.IntN(3), 1 + g.IntN(3)})
		case "Conv2d":
			if g.special > 0 {
				return // as for convolutions
			}
			name, ok = g.call(op, name, g.like(x.dtype, []int{g.small(), x.shape[1], 1 + g.IntN(2), 1 + g.IntN(2)}), nil, tensor.Conv{Padding: []int{g.IntN(2)}})
		case "Slice":
			name, ok = g.call(op, name, 1+g.IntN(3), 0, 2, 1)
		}
		if !ok || len(g.info(name).shape) != 4 || product(g.info(name).shape) == 0 {
			return
		}
	}
}

func (g *generator) small() int { return oneOf(g, 1, 2, 2, 3, 4) }

func rareNorms(g *generator) {
	if g.chance(0.5) {
		v := g.plain(g.floats(3, 4))
		g.call("LocalResponseNorm", v.name, 1+g.IntN(4), map[string]any{"Alpha": oneOf(g, 0, 0.5), "Beta": oneOf(g, 0, 0.5), "K": oneOf(g, 0, 2)})
		return
	}
	v := g.plain(g.floats(1, 2))
	if g.special > 0 || product(v.shape) == 0 {
		return // as other losses of margins
	}
	classes := v.shape[len(v.shape)-1]
	var words []string
	for range product(v.shape) / classes {
		n := g.IntN(classes + 1)
		for i, c := range g.Perm(classes) {
			if i >= n {
				c = -1
			}
			words = append(words, strconv.Itoa(c))
		}
	}
	name, _ := g.add(Step{Op: "Input", DType: "int64", Base: v.shape, Data: strings.Join(words, " ")})
	g.call("MultiLabelMarginLoss", v.name, name, int(oneOf(g, autograd.MeanReduction, autograd.SumReduction, autograd.NoReduction)))
}

// volumes are convolutions and pools of three dimensions.
func volumes(g *generator) {
	if g.special > 0 || g.main == "bfloat16" || g.main == "float16" {
		return // as for images; and PyTorch 1.13 has few of half types
	}
	dt := dtypes[g.main]
	groups := oneOf(g, 1, 1, 2)
	in, out := groups*(1+g.IntN(2)), groups*(1+g.IntN(2))
	image, kernel := []int{in}, []int{}
	if g.chance(0.8) {
		image = append([]int{1 + g.IntN(2)}, image...)
	}
	for range 3 {
		kernel = append(kernel, 1+g.IntN(2))
		image = append(image, 2+g.IntN(3))
	}
	list := func(least, n int) []int {
		l := make([]int, oneOf(g, 1, 3))
		for i := range l {
			l[i] = least + g.IntN(n)
		}
		return l
	}
	x := g.like(dt, image)
	k := 1 + g.IntN(2)
	p := map[string]any{"Kernel": []int{k}, "Padding": []int{g.IntN(k/2 + 1)}, "CeilMode": g.chance(0.4), "Stride": []int{1 + g.IntN(2)}}
	switch op := oneOf(g, "Conv3d", "ConvTranspose3d", "MaxPool3d", "AvgPool3d", "AdaptiveMaxPool3d", "AdaptiveAvgPool3d"); op {
	case "Conv3d":
		c := tensor.Conv{Stride: list(1, 2), Padding: list(0, 2), Dilation: list(1, 2), Groups: groups}
		g.call(op, x, g.like(dt, append([]int{out, in / groups}, kernel...)), g.maybe(dt, []int{out}), c)
	case "ConvTranspose3d":
		c := tensor.ConvTranspose{Stride: list(1, 2), Padding: list(0, 2), Groups: groups}
		g.call(op, x, g.like(dt, append([]int{in, out / groups}, kernel...)), g.maybe(dt, []int{out}), c)
	case "AvgPool3d":
		p["ExcludePadding"] = g.chance(0.5)
		g.call(op, x, p)
	case "MaxPool3d":
		g.call(op, x, p)
	default:
		g.call(op, x, oneOf(g, []int{1 + g.IntN(3)}, []int{1 + g.IntN(2), 1 + g.IntN(3), 1 + g.IntN(2)}))
	}
}
