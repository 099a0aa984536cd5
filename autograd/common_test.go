package autograd_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// flatJoined is results one behind the other, as float64.
func flatJoined(vs ...variable) variable {
	all := make([]variable, len(vs))
	for i, v := range vs {
		all[i] = v.Reshape(v.Len()).To(tensor.Float64)
	}
	return autograd.Cat(all, 0)
}

func commonFunctions() map[string]func(v vars) variable {
	wide := func(v variable) variable { return v.To(tensor.Float64) }
	f := map[string]func(v vars) variable{
		"hypot":    func(v vars) variable { return v[0].Hypot(v[1]) },
		"copysign": func(v vars) variable { return v[0].Copysign(v[1]) }, "ldexp": func(v vars) variable { return v[0].Ldexp(v[1]) },
		"logaddexp2": func(v vars) variable { return v[0].LogAddExp2(v[1]) }, "fmax": func(v vars) variable { return v[0].FMax(v[1]) },
		"fmin": func(v vars) variable { return v[0].FMin(v[1]) }, "heaviside": func(v vars) variable { return v[0].Heaviside(v[1]) },
		"float_power": func(v vars) variable { return v[0].FloatPower(v[1]) }, "sinc": func(v vars) variable { return v[0].Sinc() },
		"deg2rad": func(v vars) variable { return v[0].Deg2Rad() }, "rad2deg": func(v vars) variable { return v[0].Rad2Deg() },
		"isposinf": func(v vars) variable { return wide(v[0].IsPosInf()) }, "isneginf": func(v vars) variable { return wide(v[0].IsNegInf()) },
		"signbit": func(v vars) variable { return wide(v[0].Signbit()) }, "tanhshrink": func(v vars) variable { return v[0].Tanhshrink() },
		"rrelu": func(v vars) variable { return v[0].RReLU(0.1, 0.4, false) }, "diff 1 -1": func(v vars) variable { return v[0].Diff(1, -1) },
		"gradient":    func(v vars) variable { return flatJoined(v[0].Gradient(nil, nil, 1)...) },
		"gradient 2":  func(v vars) variable { return flatJoined(v[0].Gradient([]float64{0.5, 2}, []int{1, -3}, 2)...) },
		"trapezoid 1": func(v vars) variable { return v[0].Trapezoid(nil, 0.5, 1) }, "trapezoid -1": func(v vars) variable { return v[0].Trapezoid(nil, 0.5, -1) },
		"trapezoid x 1":            func(v vars) variable { return v[0].Trapezoid(v[1], 1, 1) },
		"cumulative_trapezoid 1":   func(v vars) variable { return v[0].CumulativeTrapezoid(nil, 0.5, 1) },
		"cumulative_trapezoid -1":  func(v vars) variable { return v[0].CumulativeTrapezoid(nil, 0.5, -1) },
		"cumulative_trapezoid x 1": func(v vars) variable { return v[0].CumulativeTrapezoid(v[1], 1, 1) },
		"select_scatter":           func(v vars) variable { return v[0].SelectScatter(v[1], 1, -2) },
		"slice_scatter":            func(v vars) variable { return v[0].SliceScatter(v[1], 1, 1, -1, 2) },
		"diagonal_scatter 0 1":     func(v vars) variable { return v[0].DiagonalScatter(v[1], 0, 0, 1) },
		"put":                      func(v vars) variable { return v[0].Put(v[1], v[2], false) },
		"put add":                  func(v vars) variable { return v[0].Put(v[1], v[2], true) },
		"vstack":                   func(v vars) variable { return autograd.VStack(v...) },
		"hstack":                   func(v vars) variable { return autograd.HStack(v...) },
		"dstack":                   func(v vars) variable { return autograd.DStack(v...) },
		"column_stack":             func(v vars) variable { return autograd.ColumnStack(v...) },
		"block_diag":               func(v vars) variable { return autograd.BlockDiag(v...) },
		"cartesian_prod":           func(v vars) variable { return autograd.CartesianProd(v...) },
		"corrcoef":                 func(v vars) variable { return v[0].CorrCoef() },
		"aminmax":                  func(v vars) variable { return flatJoined(pair(v[0].AMinMax([]int{1}, false))...) },
		"aminmax all":              func(v vars) variable { return flatJoined(pair(v[0].AMinMax(nil, false))...) },
		"vander 3":                 func(v vars) variable { return v[0].Vander(3, false) },
		"vander 4 up":              func(v vars) variable { return v[0].Vander(4, true) },
		"addmv":                    func(v vars) variable { return autograd.AddMV(v[0], v[1], v[2], 0.5, 2) },
		"addmv 0":                  func(v vars) variable { return autograd.AddMV(v[0], v[1], v[2], 0, 1) },
		"addr":                     func(v vars) variable { return autograd.AddR(v[0], v[1], v[2], 0.5, 2) },
		"inner":                    func(v vars) variable { return v[0].Inner(v[1]) },
		"vecdot":                   func(v vars) variable { return v[0].VecDot(v[1], 0) },
		"max_pool1d indices":       func(v vars) variable { return wide(pair(v[0].MaxPool1dIndices(tensor.Pool{Kernel: []int{2}}))[1]) },
		"local_response_norm of settings 3": func(v vars) variable {
			return v[0].LocalResponseNorm(3, autograd.LocalResponse{Alpha: 0.1, Beta: 0.6, K: 1.5})
		},
		"local_response_norm of settings 4": func(v vars) variable {
			return v[0].LocalResponseNorm(4, autograd.LocalResponse{Alpha: 0.1, Beta: 0.6, K: 1.5})
		},
		"local_response_norm of settings 9": func(v vars) variable {
			return v[0].LocalResponseNorm(9, autograd.LocalResponse{Alpha: 0.1, Beta: 0.6, K: 1.5})
		},
	}
	f["atleast_1d"] = func(v vars) variable { return v[0].AtLeast1d() }
	f["atleast_2d"] = func(v vars) variable { return v[0].AtLeast2d() }
	f["atleast_3d"] = func(v vars) variable { return v[0].AtLeast3d() }
	f["hsplit"] = func(v vars) variable { return lastFirst(v[0].HSplit(2)) }
	f["vsplit"] = func(v vars) variable { return lastFirst(v[0].VSplit(2)) }
	f["dsplit"] = func(v vars) variable { return lastFirst(v[0].DSplit(2)) }
	f["diagflat"] = func(v vars) variable { return v[0].DiagFlat(1) }
	f["fliplr"] = func(v vars) variable { return v[0].FlipLR() }
	f["flipud"] = func(v vars) variable { return v[0].FlipUD() }
	f["ndtr"] = func(v vars) variable { return v[0].Ndtr() }
	f["entr"] = func(v vars) variable { return v[0].Entr() }
	f["xlog1py"] = func(v vars) variable { return v[0].Xlog1py(v[1]) }
	f["mvlgamma"] = func(v vars) variable { return v[0].MVLgamma(3) }
	f["addbmm"] = func(v vars) variable { return autograd.AddBMM(v[0], v[1], v[2], 0.5, 2) }
	f["unique_consecutive"] = func(v vars) variable {
		values, inverse, counts := v[0].UniqueConsecutive()
		return flatJoined(values, inverse, counts)
	}
	f["bilinear"] = func(v vars) variable {
		if len(v) == 3 {
			return autograd.Bilinear(v[0], v[1], v[2], nil)
		}
		return autograd.Bilinear(v[0], v[1], v[2], v[3])
	}
	pool := tensor.Pool{Kernel: []int{3, 2}, Stride: []int{2, 1}, Padding: []int{1, 1}, Dilation: []int{1, 2}}
	ceil := tensor.Pool{Kernel: []int{2}, CeilMode: true}
	f["max_pool2d indices"] = func(v vars) variable { return wide(pair(v[0].MaxPool2dIndices(pool))[1]) }
	f["max_pool2d ceil"] = func(v vars) variable { return wide(pair(v[0].MaxPool2dIndices(ceil))[1]) }
	f["unpooled max_pool2d ceil"] = func(v vars) variable {
		y, at := v[0].MaxPool2dIndices(ceil)
		return y.MaxUnpool2d(at, 6, 7)
	}
	f["max_unpool1d"] = func(v vars) variable {
		y, at := v[0].MaxPool1dIndices(tensor.Pool{Kernel: []int{2}})
		return y.MaxUnpool1d(at, 7)
	}
	for _, n := range []int{0, 1, 2, 9} {
		f[fmt.Sprintf("diff %d 1", n)] = func(v vars) variable { return v[0].Diff(n, 1) }
	}
	for _, offset := range []int{0, 1, -2, 3} {
		f[fmt.Sprint("diagonal_scatter ", offset)] = func(v vars) variable { return v[0].DiagonalScatter(v[1], offset, 2, 0) }
	}
	for how, r := range map[string]tensor.ScatterReduction{"prod": tensor.ScatterProd, "mean": tensor.ScatterMean, "amax": tensor.ScatterMax, "amin": tensor.ScatterMin} {
		f["index_reduce "+how] = func(v vars) variable { return v[0].IndexReduce(1, v[1], v[2], r, true) }
	}
	for _, r := range []int{0, 1, 2, 3, 5} {
		f[fmt.Sprint("combinations ", r)] = func(v vars) variable { return v[0].Combinations(r, false) }
		f[fmt.Sprint("combinations ", r, " again")] = func(v vars) variable { return v[0].Combinations(r, true) }
	}
	for _, c := range []int{0, 1} {
		f[fmt.Sprint("cov ", c)] = func(v vars) variable { return v[0].Cov(c) }
	}
	for name, p := range map[string]float64{"0": 0, "1": 1, "2": 2, "3": 3, "inf": math.Inf(1)} {
		f["dist "+name] = func(v vars) variable { return v[0].Dist(v[1], p) }
		f["pdist "+name] = func(v vars) variable { return v[0].PDist(p) }
		f["renorm "+name] = func(v vars) variable { return v[0].Renorm(p, 1, 1.5) }
		f["lp_pool1d "+name] = func(v vars) variable { return v[0].LPPool1d(p, tensor.Pool{Kernel: []int{2}}) }
		f["lp_pool2d "+name] = func(v vars) variable { return v[0].LPPool2d(p, tensor.Pool{Kernel: []int{2, 3}, Stride: []int{1, 2}}) }
	}
	return f
}

// lastFirst joins pieces from the last to the first.
func lastFirst(vs []variable) variable {
	if vs[0] == nil {
		return nil
	}
	return flatJoined(vs[1], vs[0])
}

func pair(a, b variable) []variable { return []variable{a, b} }

func init() {
	functions := commonFunctions()
	one := func(name string, shapes ...[]int) gradientCase {
		return gradientCase{op: name, f: functions[name], shapes: shapes}
	}
	indexed := func(name string, index []int64, shapes ...[]int) gradientCase { // the index is last there, and second in the functions
		return gradientCase{op: name, f: func(v vars) variable { return functions[name](vars{v[0], v[2], v[1]}) }, inputs: func(r *rig) []*tensor.Tensor {
			return []*tensor.Tensor{r.random(1, shapes[0]...), r.random(2, shapes[1]...), r.ints(index, len(index))}
		}}
	}
	composed(functions,
		one("hypot", []int{2, 3}, []int{3}), one("copysign", []int{2, 3}, []int{3}), one("ldexp", []int{2, 3}, []int{3}), one("logaddexp2", []int{2, 3}, []int{3}),
		one("fmax", []int{2, 3}, []int{3}), one("fmin", []int{2, 3}, []int{3}), one("sinc", []int{3}), one("deg2rad", []int{3}), one("rad2deg", []int{3}),
		one("tanhshrink", []int{3}), one("rrelu", []int{3}), one("diff 2 1", []int{2, 4}), one("gradient", []int{3, 4}), one("gradient 2", []int{3, 5, 1}),
		one("trapezoid 1", []int{2, 4, 3}), one("trapezoid x 1", []int{2, 4, 3}, []int{4}), one("cumulative_trapezoid x 1", []int{2, 4}, []int{2, 4}),
		one("select_scatter", []int{2, 3, 2}, []int{2, 2}), one("slice_scatter", []int{2, 6}, []int{2, 2}), one("diagonal_scatter 1", []int{4, 2, 3}, []int{2, 3}),
		indexed("index_reduce mean", []int64{2, 0, 2}, []int{2, 4}, []int{2, 3}), indexed("put add", []int64{5, 0, -1}, []int{2, 3}, []int{3}),
		one("vstack", []int{3}, []int{2, 3}), one("hstack", []int{2, 3}, []int{2, 1}), one("dstack", []int{2, 3}, []int{2, 3}), one("column_stack", []int{2}, []int{2, 3}),
		one("block_diag", []int{2, 1}, []int{3}), one("cartesian_prod", []int{2}, []int{3}), one("combinations 2", []int{4}), one("cov 1", []int{2, 4}),
		one("corrcoef", []int{2, 4}), one("dist 2", []int{2, 3}, []int{3}), one("pdist 2", []int{3, 2}), one("renorm 2", []int{2, 3}), one("aminmax", []int{2, 3}),
		one("vander 3", []int{3}), one("addmv", []int{2}, []int{2, 3}, []int{3}), one("addr", []int{2, 3}, []int{2}, []int{3}), one("inner", []int{2, 3}, []int{4, 3}),
		one("atleast_3d", []int{2, 3}), one("hsplit", []int{2, 4}), one("diagflat", []int{2, 2}), one("fliplr", []int{2, 3}), one("flipud", []int{3}),
		one("ndtr", []int{4}), one("addbmm", []int{2}, []int{3, 2, 4}, []int{3, 4, 2}),
		gradientCase{op: "entr", f: func(v vars) variable { return v[0].Square().AddScalar(0.5).Entr() }, shapes: [][]int{{4}}},
		gradientCase{op: "special_xlog1py", f: func(v vars) variable { return v[0].Xlog1py(v[1].Square()) }, shapes: [][]int{{2, 3}, {3}}},
		gradientCase{op: "mvlgamma", f: func(v vars) variable { return v[0].Square().AddScalar(2).MVLgamma(2) }, shapes: [][]int{{4}}},
		one("vecdot", []int{3, 2}, []int{3, 1}), one("bilinear", []int{2, 3}, []int{2, 2}, []int{4, 3, 2}, []int{4}),
		one("unpooled max_pool2d ceil", []int{1, 1, 6, 7}), one("max_unpool1d", []int{2, 7}), one("local_response_norm of settings 3", []int{1, 4, 2}),
		gradientCase{op: "lp_pool2d", f: func(v vars) variable { return functions["lp_pool2d 3"](vars{v[0].Square().AddScalar(0.5)}) }, shapes: [][]int{{1, 3, 3}}},
		gradientCase{op: "float_power", f: func(v vars) variable { return v[0].Square().AddScalar(0.5).FloatPower(v[1]) }, shapes: [][]int{{2, 3}, {3}}},
		gradientCase{op: "rrelu", note: "training", f: func(v vars) variable { return v[0].RReLU(0.3, 0.3, true) }, shapes: [][]int{{4}}},
	)
}

func TestTriangleIndices_AreThoseOfTheTriangles(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	for _, c := range []struct{ rows, columns, diagonal int }{{3, 4, 0}, {4, 3, 1}, {3, 3, -2}, {2, 2, 5}, {2, 2, -5}, {0, 3, 0}, {3, 0, 0}, {2, 2, math.MaxInt}, {2, 2, math.MinInt}} {
		ones := g.Ones(tensor.Int64, c.rows, c.columns)
		if c.rows*c.columns > 0 {
			require.Equal(t, valuesOf(t, ones.Tril(c.diagonal).Nonzero().T()), valuesOf(t, g.TrilIndices(c.rows, c.columns, c.diagonal)), c)
			require.Equal(t, valuesOf(t, ones.Triu(c.diagonal).Nonzero().T()), valuesOf(t, g.TriuIndices(c.rows, c.columns, c.diagonal)), c)
			continue
		}
		require.Equal(t, tensor.Shape{2, 0}, g.TrilIndices(c.rows, c.columns, c.diagonal).Shape())
	}
	require.Equal(t, []float64{1, 10, 100}, valuesOf(t, g.Logspace(0, 2, 3, 10, tensor.Float64)))
	require.NoError(t, g.Err())
	var wrong *tensor.ValueError
	_, err := tensor.TrilIndices(r.exec, -1, 2, 0)
	require.ErrorAs(t, err, &wrong)
	_, err = tensor.TriuIndices(r.exec, 1<<29, 1<<29, 0)
	require.ErrorAs(t, err, &wrong)
}

func TestRReLU_DrawsSlopesInTraining(t *testing.T) {
	r := onHost(t)
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(3)))
	defer g.Release()
	x := g.Full(-1, tensor.Float32, 10000)
	y := valuesOf(t, x.RReLU(0.25, 0.5, true).Neg())
	sum := 0.0
	for _, v := range y {
		require.True(t, 0.25 <= v && v <= 0.5, v)
		sum += v
	}
	require.InDelta(t, 0.375, sum/10000, 0.003)
	require.Equal(t, []float64{3}, valuesOf(t, g.Full(3, tensor.Float16, 1).RReLU(0, 1, true)))
}
