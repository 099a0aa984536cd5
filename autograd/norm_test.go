package autograd_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Cases of the normalisations, and of operations with an index for each element.

func init() {
	gradientCases = append(gradientCases, normCases...)
	gradientCases = append(gradientCases, gatherCases...)
	maps.Copy(goldenFunctions, normGoldens)
}

// nth is input i of a case, nil if there are not as many.
func nth(v vars, i int) *autograd.Variable {
	if i < len(v) {
		return v[i]
	}
	return nil
}

func layerNorm(shape ...int) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].LayerNorm(shape, nth(v, 1), nth(v, 2), 1e-5) }
}

func rmsNorm(shape ...int) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].RMSNorm(shape, nth(v, 1), 1e-6) }
}

func groupNorm(groups int) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].GroupNorm(groups, nth(v, 1), nth(v, 2), 1e-5) }
}

func instanceNorm(v vars) *autograd.Variable { return v[0].InstanceNorm(nth(v, 1), nth(v, 2), 1e-5) }

func batchNorm(v vars) *autograd.Variable {
	return v[0].BatchNorm(nil, nil, nth(v, 1), nth(v, 2), true, 0.1, 1e-5)
}

// batchNormEval has constant running statistics: 0.5 and 2 for each channel.
func batchNormEval(v vars) *autograd.Variable {
	if !v[0].Alive() { // of a graph that has failed
		return v[0].BatchNorm(nil, nil, nil, nil, false, 0.1, 1e-5)
	}
	mean, variance := constantParameter(v[0], 0.5), constantParameter(v[0], 2)
	defer mean.Release()
	defer variance.Release()
	return v[0].BatchNorm(mean, variance, nth(v, 1), nth(v, 2), false, 0.1, 1e-5)
}

func constantParameter(v *autograd.Variable, value float64) *autograd.Parameter {
	t := must(tensor.Full(v.Graph().Exec(), value, v.DType(), v.Dim(1)))
	p := autograd.NewParameter("running", t)
	p.SetRequiresGrad(false)
	return p
}

// onlyBias normalises a constant: only the bias gets a gradient.
func onlyBias(f func(v vars) *autograd.Variable) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable {
		x, w := v[1].To(tensor.Float64), v[2].To(tensor.Float64)
		return f(vars{x, w, v[0]})
	}
}

// constants are integers, which need no gradient, after a random bias of n elements.
func constants(n int, shape ...int) func(r *rig) []*tensor.Tensor {
	return func(r *rig) []*tensor.Tensor {
		x, w := make([]int64, tensor.Shape(shape).Len()), make([]int64, n)
		for i := range x {
			x[i] = int64(i * i % 7)
		}
		return []*tensor.Tensor{r.random(1, n), r.ints(x, shape...), r.ints(w, n)}
	}
}

var normCases = []gradientCase{
	{op: "layer_norm", f: layerNorm(4), shapes: [][]int{{3, 4}}},
	{op: "layer_norm", note: "two dims", f: layerNorm(2, 3), shapes: [][]int{{2, 2, 3}}},
	{op: "layer_norm", note: "bias alone", f: func(v vars) *autograd.Variable { return v[0].LayerNorm([]int{4}, nil, v[1], 1e-5) },
		shapes: [][]int{{3, 4}, {4}}},
	{op: "layer_norm_weight", f: layerNorm(4), shapes: [][]int{{3, 4}, {4}}},
	{op: "layer_norm_affine", f: layerNorm(2, 3), shapes: [][]int{{2, 2, 3}, {2, 3}, {2, 3}}},
	{op: "layer_norm_affine", note: "transposed", f: func(v vars) *autograd.Variable { return layerNorm(3)(vars{v[0].T(), v[1], v[2]}) },
		shapes: [][]int{{3, 4}, {3}, {3}}},
	{op: "layer_norm_affine", note: "bias only", f: onlyBias(layerNorm(3)), inputs: constants(3, 2, 3)},
	{op: "rms_norm", f: rmsNorm(4), shapes: [][]int{{3, 4}}},
	{op: "rms_norm_weight", f: rmsNorm(4), shapes: [][]int{{3, 4}, {4}}},
	{op: "group_norm", f: groupNorm(2), shapes: [][]int{{2, 4, 3}}},
	{op: "group_norm", note: "bias alone", f: func(v vars) *autograd.Variable { return v[0].GroupNorm(2, nil, v[1], 1e-5) },
		shapes: [][]int{{2, 4, 3}, {4}}},
	{op: "group_norm_weight", f: groupNorm(2), shapes: [][]int{{3, 4}, {4}}},
	{op: "group_norm_affine", f: groupNorm(3), shapes: [][]int{{2, 6, 2, 1}, {6}, {6}}},
	{op: "group_norm_affine", note: "bias only", f: onlyBias(groupNorm(1)), inputs: constants(3, 2, 3, 2)},
	{op: "instance_norm", f: instanceNorm, shapes: [][]int{{2, 3, 4}}},
	{op: "instance_norm_weight", f: instanceNorm, shapes: [][]int{{2, 3, 4}, {3}}},
	{op: "instance_norm_affine", f: instanceNorm, shapes: [][]int{{2, 2, 2, 2}, {2}, {2}}},
	{op: "batch_norm", f: batchNorm, shapes: [][]int{{4, 3}}},
	{op: "batch_norm", note: "evaluation", f: batchNormEval, shapes: [][]int{{4, 3}}},
	{op: "batch_norm_weight", f: batchNorm, shapes: [][]int{{4, 3, 2}, {3}}},
	{op: "batch_norm_weight", note: "evaluation", f: batchNormEval, shapes: [][]int{{4, 3, 2}, {3}}},
	{op: "batch_norm_affine", f: batchNorm, shapes: [][]int{{3, 2, 2, 2}, {2}, {2}}},
	{op: "batch_norm_affine", note: "columns", f: batchNorm, shapes: [][]int{{5, 2}, {2}, {2}}},
	{op: "batch_norm_affine", note: "evaluation", f: batchNormEval, shapes: [][]int{{4, 3, 2}, {3}, {3}}},
	{op: "batch_norm_affine", note: "bias only", f: onlyBias(batchNorm), inputs: constants(3, 4, 3)},
}

// indexed makes a random tensor of the first shape, indices of the second, and a random tensor of the third if it is there.
func indexed(values []int64, shapes ...[]int) func(r *rig) []*tensor.Tensor {
	return func(r *rig) []*tensor.Tensor {
		in := []*tensor.Tensor{r.random(1, shapes[0]...), r.ints(values, shapes[1]...)}
		if len(shapes) > 2 {
			in = append(in, r.random(2, shapes[2]...))
		}
		return in
	}
}

// bags are a table, indices, and offsets of bags, one of which is empty.
func bags(r *rig) []*tensor.Tensor {
	return []*tensor.Tensor{r.random(1, 4, 3), r.ints([]int64{0, 3, 1, 1, 2, 3, 0}), r.ints([]int64{0, 2, 2, 5})}
}

func bag(mode tensor.BagMode) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].EmbeddingBag(v[1], v[2], mode) }
}

// padded is a bag whose row 1 counts for nothing.
func paddedBag(mode tensor.BagMode) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].EmbeddingBag(v[1], v[2], mode, autograd.PaddingIdx(1)) }
}

var gatherCases = []gradientCase{
	{op: "gather", f: func(v vars) *autograd.Variable { return v[0].Gather(1, v[1]) }, inputs: indexed([]int64{0, 2, 2, 1, 1, 1, 0, 2}, []int{2, 3}, []int{2, 4})},
	{op: "gather", note: "part", f: func(v vars) *autograd.Variable { return v[0].Gather(0, v[1]) }, inputs: indexed([]int64{3, 3}, []int{4, 3}, []int{1, 2})},
	{op: "take_along_dim", f: func(v vars) *autograd.Variable { return v[0].TakeAlongDim(v[1], -1) },
		inputs: indexed([]int64{2, 0, 2, 1}, []int{3, 3}, []int{1, 4})},
	{op: "take_along_dim", note: "row", f: func(v vars) *autograd.Variable { return v[0].TakeAlongDim(v[1], 1) },
		inputs: indexed([]int64{2, 0, 2, 1}, []int{1, 3}, []int{2, 2})},
	{op: "scatter", f: func(v vars) *autograd.Variable { return v[0].Scatter(1, v[1], v[2]) },
		inputs: indexed([]int64{0, 2, 1, 0}, []int{2, 3}, []int{2, 2}, []int{3, 2})},
	{op: "scatter_value", f: func(v vars) *autograd.Variable { return v[0].ScatterValue(1, v[1], 2) },
		inputs: indexed([]int64{0, 2, 1, 1}, []int{2, 3}, []int{2, 2})},
	{op: "scatter_add", f: func(v vars) *autograd.Variable { return v[0].ScatterAdd(0, v[1], v[2]) },
		inputs: indexed([]int64{0, 2, 1, 2, 2, 2}, []int{3, 2}, []int{3, 2}, []int{4, 2})},
	{op: "index_add", f: func(v vars) *autograd.Variable { return v[0].IndexAdd(1, v[1], v[2]) },
		inputs: indexed([]int64{0, 2, 2}, []int{2, 3}, []int{3}, []int{2, 3})},
	{op: "masked_fill", f: func(v vars) *autograd.Variable { return v[0].MaskedFill(v[1].To(tensor.Bool), 5) },
		inputs: indexed([]int64{0, 1, 0, 1}, []int{2, 1}, []int{4})},
	{op: "embedding_bag", f: bag(tensor.BagSum), inputs: bags},
	{op: "embedding_bag", note: "mean", f: bag(tensor.BagMean), inputs: bags},
	{op: "embedding_bag", note: "max", f: bag(tensor.BagMax), inputs: bags},
	{op: "embedding_bag", note: "equal bags", f: func(v vars) *autograd.Variable { return v[0].EmbeddingBag(v[1], nil, tensor.BagMean) },
		inputs: indexed([]int64{0, 1, 2, 1, 0, 0}, []int{3, 2}, []int{2, 3})},
	{op: "embedding", note: "padding", f: func(v vars) *autograd.Variable {
		pads := v[0].Mul(v[2]) // the padding row gets no gradient, so what it is must not matter
		return pads.Embedding(v[1], autograd.PaddingIdx(-1))
	}, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 3, 2), r.ints([]int64{0, 1, 2, 1}, 2, 2), r.ints([]int64{1, 1, 0}, 3, 1)}
	}},
}

var normGoldens = map[string]func(v vars) *autograd.Variable{
	"layer_norm":         layerNorm(4),
	"layer_norm two":     layerNorm(2, 4),
	"rms_norm":           rmsNorm(4),
	"group_norm":         groupNorm(2),
	"instance_norm":      instanceNorm,
	"batch_norm":         batchNorm,
	"batch_norm eval":    batchNormEval,
	"gather":             func(v vars) *autograd.Variable { return v[0].Gather(1, v[1]) },
	"masked_fill low":    func(v vars) *autograd.Variable { return v[0].MaskedFill(v[1].To(tensor.Bool), -1e9) },
	"take_along_dim":     func(v vars) *autograd.Variable { return v[0].TakeAlongDim(v[1], 1) },
	"scatter":            func(v vars) *autograd.Variable { return v[0].Scatter(1, v[1], v[2]) },
	"scatter_value":      func(v vars) *autograd.Variable { return v[0].ScatterValue(1, v[1], 2.5) },
	"scatter_add":        func(v vars) *autograd.Variable { return v[0].ScatterAdd(1, v[1], v[2]) },
	"index_add":          func(v vars) *autograd.Variable { return v[0].IndexAdd(0, v[1], v[2]) },
	"embedding_bag sum":  bag(tensor.BagSum),
	"embedding_bag mean": paddedBag(tensor.BagMean),
	"embedding_bag max":  paddedBag(tensor.BagMax),
	"embedding_padding":  func(v vars) *autograd.Variable { return v[0].Embedding(v[1], autograd.PaddingIdx(2)) },
}

func TestNormValuesAndGradients_AreThoseOfPyTorch(t *testing.T) {
	checkGoldenFile(t, onHost, "norm.json")
}

func TestBatchNorm_ChangesRunningStatisticsInTrainingOnly(t *testing.T) {
	r := onHost(t)
	mean := autograd.NewParameter("mean", must(tensor.Zeros(r.exec, tensor.Float64, 2)))
	variance := autograd.NewParameter("variance", must(tensor.Ones(r.exec, tensor.Float64, 2)))
	defer mean.Release()
	defer variance.Release()
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 10, 3, 30}, 2, 2))
	require.NotNil(t, x.BatchNorm(mean, variance, nil, nil, true, 0.5, 0))
	require.NoError(t, g.Err())
	require.Equal(t, []float64{1, 10}, values(t, mean.Tensor()))
	require.Equal(t, []float64{0.5 + 0.5*2, 0.5 + 0.5*200}, values(t, variance.Tensor()), "the unbiased variance")
	y := x.BatchNorm(mean, variance, nil, nil, false, 0.5, 0)
	require.Equal(t, []float64{0, 0}, valuesOf(t, y)[:2])
	require.Equal(t, []float64{1, 10}, values(t, mean.Tensor()))
}

func TestBatchNorm_RefusesWhatItCannotDo(t *testing.T) {
	for name, f := range map[string]func(v vars) *autograd.Variable{
		"running": func(v vars) *autograd.Variable { return v[0].BatchNorm(nil, nil, nil, nil, false, 0.1, 1e-5) },
		"more than one value": func(v vars) *autograd.Variable {
			return v[0].Narrow(0, 0, 1).BatchNorm(nil, nil, nil, nil, true, 0.1, 1e-5)
		},
		"more than one element":         func(v vars) *autograd.Variable { return v[0].Unsqueeze(2).InstanceNorm(nil, nil, 1e-5) },
		"not in -2..1":                  func(v vars) *autograd.Variable { return v[0].Embedding(v[1], autograd.PaddingIdx(2)) },
		"the table is [rows, width]":    func(v vars) *autograd.Variable { return v[0].Unsqueeze(0).Embedding(v[1]) },
		"not 2 equal groups":            func(v vars) *autograd.Variable { return v[0].GroupNorm(2, nil, nil, 1e-5) },
		"last dimensions must be [2]":   func(v vars) *autograd.Variable { return v[0].LayerNorm([]int{2}, nil, nil, 1e-5) },
		"there are more indices":        func(v vars) *autograd.Variable { return v[0].Gather(1, v[1].Reshape(-1, 1)) },
		"classes are int64":             func(v vars) *autograd.Variable { return v[0].OneHot(3) },
		"index 2 at 2 is not in 0..1":   func(v vars) *autograd.Variable { return v[0].Embedding(v[1]) },
		"weight and bias need the shap": func(v vars) *autograd.Variable { return v[0].LayerNorm([]int{3}, v[0], nil, 1e-5) },
	} {
		r := onHost(t)
		g := r.graph()
		f(vars{g.Input(r.random(1, 2, 3)), g.Input(r.ints([]int64{0, 1, 2, 1, 0, 1}))})
		require.ErrorContains(t, g.Err(), name)
		g.Release()
	}
}

func TestRMSNorm_TakesTheEpsilonOfTheType(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.zeros(tensor.Float32, 1, 4)).AddScalar(0x1p-23)
	y := valuesOf(t, x.RMSNorm([]int{4}, nil, autograd.DefaultEps))
	require.InDelta(t, 0x1p-23/0x1.6a09e8p-12, y[0], 1e-9, "1/sqrt(2^-46 + 2^-23)")
}

// What is not needed is not saved: with a frozen weight, only mean and rstd and the input.
func TestLayerNorm_SavesWhatItsGradientsNeed(t *testing.T) {
	r := onSim(t)
	x, w := r.zeros(tensor.Float32, 1024, 1024), r.zeros(tensor.Float32, 1024)
	g := r.graph()
	defer g.Release()
	before := r.allocated()
	y := g.Input(x).LayerNorm([]int{1024}, g.Input(w), g.Input(w), 1e-5)
	require.Equal(t, before+4<<20, r.allocated(), "without gradients only the result is there")
	z := g.Input(x, autograd.RequiresGrad()).LayerNorm([]int{1024}, g.Input(w), nil, 1e-5)
	require.Equal(t, before+2*4<<20+2*4096, r.allocated())
	require.NotNil(t, y)
	require.NotNil(t, z)
}

// The running statistics are of another stream than the graph: it waits for them, and they for it. The graph's stream works
// asynchronously; that of the statistics would be ahead of it.
func TestBatchNorm_OrdersTheStreamsOfItsRunningStatistics(t *testing.T) {
	r := onHost(t)
	s, err := r.dev.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	const channels = 20_000
	mean := autograd.NewParameter("mean", must(tensor.Full(r.exec, 3, tensor.Float32, channels)))
	variance := autograd.NewParameter("variance", must(tensor.Ones(r.exec, tensor.Float32, channels)))
	defer variance.Release()
	defer mean.Release()
	x := r.zeros(tensor.Float32, 50, channels)
	for range 3 {
		g := r.graph(autograd.NoGrad(), autograd.WithStream(s))
		g.Input(x).Exp().BatchNorm(mean, variance, nil, nil, true, 0.5, 1e-5)
		require.NoError(t, g.Err())
		require.NoError(t, mean.Tensor().MulScalarInPlace(2))
		g.Release()
	}
	for _, v := range values(t, mean.Tensor()) {
		require.Equal(t, 6.0, v, "three times: halved, a half added, doubled")
	}
}
