package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// What takes or puts elements by an index.

func init() { register(indexOperations, indexSamples, indexRefusals) }

var indexOperations = map[string]operation{
	"IndexSelect": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].IndexSelect(a.int(0), in[1]) },
	"IndexAdd":    func(in tensors, a args) (*tensor.Tensor, error) { return in[0].IndexAdd(a.int(0), in[1], in[2]) },
	"IndexAddInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.IndexAddInPlace(a.int(0), in[1], in[2])
	}),
	"Gather": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].Gather(a.int(0), in[1]) },
	"TakeAlongDim": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].TakeAlongDim(in[1], a.int(0))
	},
	"Scatter": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].Scatter(a.int(0), in[1], in[2]) },
	"ScatterAdd": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].ScatterAdd(a.int(0), in[1], in[2])
	},
	"ScatterValue": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].ScatterValue(a.int(0), in[1], a.float(1))
	},
	"ScatterInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.ScatterInPlace(a.int(0), in[1], in[2])
	}),
	"ScatterAddInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.ScatterAddInPlace(a.int(0), in[1], in[2])
	}),
	"EmbeddingBag": func(in tensors, a args) (*tensor.Tensor, error) {
		out, extra, err := tensor.EmbeddingBag(in[0], in[1], in[2], tensor.BagMode(a.int(0)), a.int(1))
		extra.Release()
		return out, err
	},
	"EmbeddingBagGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		out, extra, err := tensor.EmbeddingBag(in[0], in[1], in[2], tensor.BagMode(a.int(0)), a.int(1))
		if err != nil {
			return nil, err
		}
		defer out.Release()
		defer extra.Release()
		return gradients.EmbeddingBag(out, in[1], in[2], extra, in[0].Dim(0), tensor.BagMode(a.int(0)), a.int(1))
	},
	"EmbeddingBagGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.EmbeddingBag(in[0], in[1], in[2], optional(in, 3), a.int(0), tensor.BagMode(a.int(1)), a.int(2))
	},
	"OneHot": dim((*tensor.Tensor).OneHot),
}

var indexSamples = []sample{
	{"IndexSelect", "~float32[2 3] int32[4]", args{1.0}}, {"IndexAdd", "~float32[2 3] int32[4] float32[4 2]", args{0.0}},
	{"IndexAddInPlace", "float32[2 3] int32[4] float32[4 3]", args{0.0}},
	{"Gather", "float32[2 3] int32[2 2]", args{1.0}}, {"Gather", "float32[2 3] int64[2 4]", args{1.0}},
	{"Gather", "~bool[3 2] int32[1 2]", args{0.0}}, {"TakeAlongDim", "float32[2 3] int64[1 4]", args{1.0}},
	{"TakeAlongDim", "float32[1 3] int32[2 4]", args{-1.0}}, {"Scatter", "float32[2 3] int64[2 4] float32[2 5]", args{1.0}},
	{"Scatter", "~int32[3 2] int32[1 2] int32[2 2]", args{0.0}}, {"ScatterAdd", "float32[2 3] int32[2 4] ~float32[4 2]", args{1.0}},
	{"ScatterAdd", "float16[2] int64[0] float16[1]", args{0.0}}, {"ScatterValue", "float32[2 3] int64[2 4]", args{1.0, 0.5}},
	{"ScatterInPlace", "float32[2 3] int64[2 1] float32[2 1]", args{1.0}}, {"ScatterInPlace", "bool[2 3] int64[2 1] bool[2 3]", args{1.0}},
	{"ScatterAddInPlace", "float32[2 3] int64[2 1] float32[2 3]", args{1.0}},
	{"EmbeddingBag", "~float32[3 2] int32[4] int64[2]", args{0.0, -1.0}}, {"EmbeddingBag", "float32[2 3] int64[4] int32[2]", args{1.0, 0.0}},
	{"EmbeddingBag", "float16[2 3] int64[4] int64[2]", args{2.0, -1.0}},
	{"EmbeddingBagGrad", "float32[2 3] int32[4] int64[2]", args{0.0, -1.0}},
	{"EmbeddingBagGrad", "float32[2 3] int64[4] int64[2]", args{1.0, -1.0}},
	{"EmbeddingBagGrad", "float32[2 3] int64[4] int64[2]", args{2.0, -1.0}},
	{"EmbeddingBagGrad given", "float32[2 3] int64[4] int32[2]", args{2.0, 0.0, 1.0}},
	{"EmbeddingBagGrad given", "~float32[3 2] int64[4] int64[2] int64[2]", args{2.0, 1.0, -1.0}},
	{"EmbeddingBagGrad given", "float32[2 3] int32[4] int64[2] int64[2 3]", args{2.0, 2.0, -1.0}}, {"OneHot", "int64[2 3]", args{2.0}},
	{"OneHot", "~int32[2 3]", args{4.0}},
}

var indexRefusals = []refused{
	{sample{"IndexSelect", "float32[2] int64[2]", args{1.0}}, "shape"}, {sample{"IndexSelect", "float32[] int64[2]", args{0.0}}, "shape"},
	{sample{"IndexSelect", "float32[0 2] int64[2]", args{0.0}}, "shape"}, {sample{"IndexSelect", "float32[2] uint8[2]", args{0.0}}, "dtype"},
	{sample{"IndexAdd", "int32[2] int64[1] int32[1]", args{0.0}}, "dtype"},
	{sample{"IndexAddInPlace", "int32[2] int64[1] int32[1]", args{0.0}}, "dtype"},
	{sample{"IndexAdd", "float32[2] int64[1] float64[1]", args{0.0}}, "dtype"},
	{sample{"IndexAddInPlace", "float32[2] int64[1] float64[1]", args{0.0}}, "dtype"},
	{sample{"IndexAdd", "float32[2] int64[1] float32[1]", args{3.0}}, "shape"},
	{sample{"IndexAddInPlace", "float32[2] int64[1] float32[1]", args{3.0}}, "shape"},
	{sample{"IndexAdd", "float32[2] int64[1 1] float32[1]", args{0.0}}, "shape"},
	{sample{"IndexAddInPlace", "float32[2] int64[1 1] float32[1]", args{0.0}}, "shape"},
	{sample{"IndexAdd", "float32[2] int32[2] float32[1]", args{0.0}}, "shape"},
	{sample{"IndexAddInPlace", "float32[2] int32[2] float32[1]", args{0.0}}, "shape"},
	{sample{"IndexAdd", "float32[2 0] int64[3] float32[2 3]", args{1.0}}, "shape"},
	{sample{"IndexAddInPlace", "float32[2 0] int64[3] float32[2 3]", args{1.0}}, "shape"},
	{sample{"Gather", "float32[2] float32[2]", args{0.0}}, "dtype"}, {sample{"Gather", "float32[2 2] int64[3 1]", args{1.0}}, "shape"},
	{sample{"Gather", "float32[2 2] int64[2]", args{0.0}}, "shape"}, {sample{"Gather", "float32[2 3] float32[2 3]", args{1.0}}, "dtype"},
	{sample{"Gather", "float32[2 3] int64[3]", args{1.0}}, "shape"}, {sample{"Gather", "float32[2 3] int64[3 3]", args{1.0}}, "shape"},
	{sample{"Gather", "float32[2 3] int64[2 3]", args{2.0}}, "shape"}, {sample{"Gather", "float32[2 0] int64[2 3]", args{1.0}}, "shape"},
	{sample{"TakeAlongDim", "float32[2 3] int64[3 3]", args{1.0}}, "shape"},
	{sample{"TakeAlongDim", "float32[2 3] int64[3]", args{1.0}}, "shape"},
	{sample{"TakeAlongDim", "float32[2 3] float32[2 3]", args{1.0}}, "dtype"},
	{sample{"Scatter", "float32[2 3] int64[2 4] float32[2 3]", args{1.0}}, "shape"},
	{sample{"Scatter", "float32[2 3] int64[2 4] float64[2 4]", args{1.0}}, "dtype"},
	{sample{"Scatter", "float32[2 3] int64[2 4] float32[8]", args{1.0}}, "shape"},
	{sample{"ScatterAdd", "int64[2 3] int64[2 3] int64[2 3]", args{1.0}}, "dtype"},
	{sample{"ScatterAdd", "float32[0 3] int64[2 3] float32[2 3]", args{0.0}}, "shape"},
	{sample{"ScatterValue", "float32[2 3] int64[3 4]", args{1.0, 1.0}}, "shape"},
	{sample{"ScatterValue", "float32[2 3] float32[2 3]", args{1.0, 1.0}}, "dtype"},
	{sample{"ScatterInPlace", "float32[2] int64[2] float64[2]", args{0.0}}, "dtype"},
	{sample{"ScatterInPlace", "float32[2] int64[2] float32[1]", args{0.0}}, "shape"},
	{sample{"ScatterAddInPlace", "float32[2 3] int64[2 1] float32[1 1]", args{1.0}}, "shape"},
	{sample{"ScatterAddInPlace", "float32[2 3] int64[2 1] float64[2 3]", args{1.0}}, "dtype"},
	{sample{"ScatterAddInPlace", "float32[2 3] float32[2 1] float32[2 3]", args{1.0}}, "dtype"},
	{sample{"EmbeddingBag", "int32[2 3] int64[4] int64[2]", args{0.0, -1.0}}, "dtype"},
	{sample{"EmbeddingBag", "float32[2 3] float32[4] int64[2]", args{0.0, -1.0}}, "dtype"},
	{sample{"EmbeddingBag", "float32[6] int64[4] int64[2]", args{0.0, -1.0}}, "shape"},
	{sample{"EmbeddingBag", "float32[2 3] int64[2 2] int64[2]", args{0.0, -1.0}}, "shape"},
	{sample{"EmbeddingBag", "float32[2 3] int64[4] int64[2]", args{3.0, -1.0}}, "value"},
	{sample{"EmbeddingBag", "float32[2 3] int64[4] int64[2]", args{0.0, 2.0}}, "value"},
	{sample{"EmbeddingBagGrad given", "float32[3 3] int64[4] int64[2]", args{2.0, 0.0, -1.0}}, "shape"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2] int64[3]", args{2.0, 1.0, -1.0}}, "shape"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2] int32[2]", args{2.0, 1.0, -1.0}}, "dtype"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2] int64[2]", args{2.0, 2.0, -1.0}}, "shape"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] float32[4] int64[2]", args{2.0, 0.0, -1.0}}, "dtype"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2]", args{-1.0, 0.0, -1.0}}, "value"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2]", args{2.0, -1.0, -1.0}}, "value"},
	{sample{"OneHot", "int64[1 1 1 1 1 1 1 1]", args{2.0}}, "shape"}, {sample{"OneHot", "float32[2 3]", args{1.0}}, "dtype"},
	{sample{"OneHot", "int64[2 3]", args{-2.0}}, "value"}, {sample{"OneHot", "int64[2 3]", args{0.0}}, "value"},
	{sample{"OneHot", "int64[0]", args{-1.0}}, "shape"},
}

func TestScatterInPlace_OfItsOwnElementsReadsThemFirst(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []float32{1, 2, 3, 4}, 4))
	to := must(t)(tensor.FromSlice(b.Exec, []int64{1, 2, 3, 0}, 4))
	require.NoError(t, x.ScatterInPlace(0, to, x))
	require.Equal(t, []float64{4, 1, 2, 3}, values(t, x), "a rotation, not a smear")
	require.NoError(t, to.ScatterInPlace(0, to, to))
	require.Equal(t, []float64{0, 1, 2, 3}, values(t, to), "indices and source are the destination")
}

func TestScatterInPlace_ChangesAViewAndNothingElse(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.Zeros(b.Exec, tensor.Float32, 3, 2))
	column := must(t)(must(t)(x.Transpose(0, 1)).Narrow(0, 1, 1))
	at := must(t)(tensor.FromSlice(b.Exec, []int64{2, 0, 2}, 1, 3))
	before := x.Version()
	require.NoError(t, column.ScatterAddInPlace(1, at, must(t)(tensor.Ones(b.Exec, tensor.Float32, 1, 3))))
	require.Equal(t, []float64{0, 1, 0, 0, 0, 2}, values(t, x))
	require.NotEqual(t, before, x.Version())
	wide := must(t)(must(t)(tensor.Zeros(b.Exec, tensor.Float32, 1)).Expand(3))
	require.ErrorContains(t, wide.ScatterInPlace(0, at, x), "dimensions")
	require.ErrorContains(t, wide.ScatterInPlace(0, must(t)(at.Select(0, 0)), must(t)(x.Select(1, 0))), "share an address")
}

func TestIndexAdd_LeavesItsOperandAsItWas(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 3, 2)
	to := must(t)(tensor.FromSlice(b.Exec, []int64{2, 0, 2}))
	ones := must(t)(tensor.Ones(b.Exec, tensor.Float32, 3, 2))
	sum := must(t)(must(t)(x.T()).IndexAdd(1, to, must(t)(ones.T())))
	require.Equal(t, []float64{1, 2, 6, 2, 3, 7}, values(t, sum))
	require.True(t, sum.IsContiguous())
	require.Equal(t, []float64{0, 1, 2, 3, 4, 5}, values(t, x))
	require.Zero(t, x.Version())
}

// A ring buffer is larger than what is written to it.
func TestIndexCopyAndPutInPlace_DoNotCopyTheBuffer(t *testing.T) {
	for name, put := range map[string]func(ring, rows, batch *tensor.Tensor) error{
		"IndexCopyInPlace": func(ring, rows, batch *tensor.Tensor) error { return ring.IndexCopyInPlace(0, rows, batch) },
		"IndexPutInPlace":  func(ring, rows, batch *tensor.Tensor) error { return ring.IndexPutInPlace(tensors{rows}, batch, false) },
		"accumulate":       func(ring, rows, batch *tensor.Tensor) error { return ring.IndexPutInPlace(tensors{rows}, batch, true) },
	} {
		b := onHost(t)
		ring := must(t)(tensor.Zeros(b.Exec, tensor.Float32, 1<<12, 4, 8))
		rows := must(t)(tensor.FromSlice(b.Exec, []int32{4095, 0}))
		batch := must(t)(tensor.Ones(b.Exec, tensor.Float32, 2, 4, 8))
		require.NoError(t, put(ring, rows, batch), name)
		require.Equal(t, 64.0, item(t, must(t)(ring.Sum(nil, false))), name)
		require.Equal(t, 32.0, item(t, must(t)(must(t)(ring.Select(0, 4095)).Sum(nil, false))), name)
		require.Less(t, b.alloc.Stats().AllocatedBytes.All.Peak, int64(ring.Len()*4*3/2), name)
	}
}
