package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// What selects elements by their values, by places, and by several indices.

func init() { register(selectionOperations, selectionSamples, selectionRefusals) }

// at are the inputs that places name; -1 is none.
func at(in tensors, places []int) tensors {
	list := make(tensors, len(places))
	for i, p := range places {
		if p >= 0 {
			list[i] = in[p]
		}
	}
	return list
}

// unique is result k of Unique.
func unique(k int) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) {
		values, inverse, counts, err := in[0].Unique()
		all := tensors{values, inverse, counts}
		all[0], all[k] = all[k], all[0]
		return first(all, err)
	}
}

var selectionOperations = map[string]operation{
	"Nonzero": one((*tensor.Tensor).Nonzero), "MaskedSelect": two((*tensor.Tensor).MaskedSelect), "IsIn": two((*tensor.Tensor).IsIn),
	"Unique": unique(0), "Unique inverse": unique(1), "Unique counts": unique(2),
	"BinCount": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].BinCount(optional(in, 1), a.int(0)) },
	"IndexCopy": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].IndexCopy(a.int(0), in[1], in[2])
	},
	"IndexCopyInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.IndexCopyInPlace(a.int(0), in[1], in[2])
	}),
	"IndexPutInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.IndexPutInPlace(at(in, a.ints(1)), in[1], a.bool(0))
	}),
	"IndexFill": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].IndexFill(a.int(0), in[1], a.float(1))
	},
	"Index": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].Index(at(in, a.ints(0))...) },
	"IndexPut": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].IndexPut(at(in, a.ints(1)), in[1], a.bool(0))
	},
	"ScatterReduce": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].ScatterReduce(a.int(0), in[1], in[2], tensor.ScatterReduction(a.int(1)), a.bool(2))
	},
}

// sizedByValues are the operations whose results are as large as values say, which a simulated device does not have.
var sizedByValues = map[string]bool{"Nonzero": true, "MaskedSelect": true, "Unique": true, "BinCount": true, "Index": true, "IndexPut": true, "IndexPutInPlace": true}

var selectionSamples = []sample{
	{"Nonzero", "~float32[3 2]", nil}, {"Nonzero", "bool[]", nil}, {"MaskedSelect", "float32[2 3] bool[3]", nil}, {"IsIn", "~float32[3 2] int64[4]", nil},
	{"Unique", "~int32[3 2]", nil}, {"Unique inverse", "float32[4]", nil}, {"Unique counts", "bool[4]", nil}, {"BinCount", "uint8[5]", args{0.0}},
	{"BinCount", "int32[5] float32[5]", args{4.0}}, {"IndexCopy", "~float16[3 2] int32[2] ~float16[2 2]", args{1.0}}, {"IndexFill", "int32[2 3] int64[2]", args{1.0, 4.0}},
	{"IndexCopyInPlace", "~float16[3 2] int32[2] ~float16[2 2]", args{1.0}}, {"IndexCopyInPlace", "float32[4 3] int64[2] float32[2 3]", args{0.0}},
	{"IndexPutInPlace", "~float32[3 2] float32[2] int64[2] int32[2]", args{0.0, 2.0, 3.0}}, {"IndexPutInPlace", "float32[4 3] float32[2 3] int64[2]", args{0.0, 2.0}},
	{"IndexPutInPlace", "float16[3 2 2] float16[2 2] int64[2]", args{1.0, 2.0}}, {"IndexPutInPlace", "int32[2 3] int32[] bool[2 3]", args{0.0, 2.0}},
	{"IndexPutInPlace", "uint8[3] uint8[2] int64[2]", args{1.0, 2.0}}, {"IndexPutInPlace", "~int32[3 2] int32[2] int64[2]", args{1.0, -1.0, 2.0}},
	{"Index", "float32[2 3 4] int32[2 1] int64[3]", args{1.0, 2.0}}, {"Index", "~float32[3 2] int64[4]", args{-1.0, 1.0}}, {"Index", "float32[2 3 2] int64[2] int64[2]", args{1.0, -1.0, 2.0}},
	{"Index", "float32[2 3] bool[2]", args{1.0}}, {"IndexPut", "~float32[3 2] float32[2] int64[2] int32[2]", args{0.0, 2.0, 3.0}},
	{"IndexPut", "float16[3 2 2] float16[2 2] int64[2]", args{1.0, 2.0}}, {"IndexPut", "int32[2 3] int32[] bool[2 3]", args{0.0, 2.0}}, {"IndexPut", "uint8[3] uint8[2] int64[2]", args{1.0, 2.0}},
	{"ScatterReduce", "~float16[3 2] int32[2 5] float16[2 6]", args{1.0, 0.0, 1.0}}, {"ScatterReduce", "int64[2 3] int64[4 2] int64[4 3]", args{0.0, 2.0, 0.0}},
	{"ScatterReduce", "float64[1] int64[0] float64[3]", args{0.0, 3.0, 1.0}}, {"ScatterReduce", "uint8[3] int64[0] uint8[2]", args{0.0, 1.0, 1.0}},
}

var selectionRefusals = []refused{
	{sample{"MaskedSelect", "float32[2] bool[3]", nil}, "shape"}, {sample{"MaskedSelect", "float32[2] int64[2]", nil}, "dtype"},
	{sample{"BinCount", "float32[2]", args{0.0}}, "dtype"}, {sample{"BinCount", "int64[2 2]", args{0.0}}, "shape"}, {sample{"BinCount", "int64[2]", args{-1.0}}, "value"},
	{sample{"BinCount", "int64[2] float32[3]", args{0.0}}, "shape"}, {sample{"BinCount", "bool[2] float32[2]", args{0.0}}, "dtype"},
	{sample{"IndexCopy", "float32[2] int64[1] float64[1]", args{0.0}}, "dtype"}, {sample{"IndexCopy", "float32[2] int64[1] float32[2]", args{0.0}}, "shape"},
	{sample{"IndexCopyInPlace", "float32[2] int64[1] float64[1]", args{0.0}}, "dtype"}, {sample{"IndexCopyInPlace", "float32[2] int64[1] float32[2]", args{0.0}}, "shape"},
	{sample{"IndexCopy", "float32[2] int64[1 1] float32[1]", args{0.0}}, "shape"}, {sample{"IndexCopy", "float32[2] float32[1] float32[1]", args{0.0}}, "dtype"},
	{sample{"IndexCopyInPlace", "float32[2] int64[1 1] float32[1]", args{0.0}}, "shape"}, {sample{"IndexCopyInPlace", "float32[2] float32[1] float32[1]", args{0.0}}, "dtype"},
	{sample{"IndexFill", "float32[2] int64[1]", args{1.0, 0.0}}, "shape"}, {sample{"IndexFill", "float32[2] uint8[1]", args{0.0, 0.0}}, "dtype"},
	{sample{"IndexFill", "float32[] int64[2]", args{0.0, 0.0}}, "shape"}, {sample{"IndexFill", "float32[0] int64[2]", args{0.0, 0.0}}, "shape"},
	{sample{"IndexFill", "int32[2] int64[1]", args{0.0, 1e30}}, "value"},
	{sample{"Index", "float32[2]", args{-1.0}}, "value"}, {sample{"Index", "float32[2] uint8[1]", args{1.0}}, "dtype"}, {sample{"Index", "float32[2] int64[1]", args{1.0, 1.0}}, "shape"},
	{sample{"Index", "float32[2] bool[3]", args{1.0}}, "shape"}, {sample{"Index", "float32[2] bool[]", args{1.0}}, "shape"}, {sample{"Index", "float32[2 2] bool[2]", args{-1.0, -1.0, 1.0}}, "shape"},
	{sample{"IndexPut", "float32[2] float64[2] int64[2]", args{0.0, 2.0}}, "dtype"}, {sample{"IndexPut", "bool[2] bool[2] int64[2]", args{1.0, 2.0}}, "dtype"},
	{sample{"IndexPutInPlace", "float32[2] float64[2] int64[2]", args{0.0, 2.0}}, "dtype"}, {sample{"IndexPutInPlace", "bool[2] bool[2] int64[2]", args{1.0, 2.0}}, "dtype"},
	{sample{"IndexPut", "float32[2] float32[2] int64[2]", args{0.0, 2.0, 2.0}}, "shape"},
	{sample{"IndexPutInPlace", "float32[2] float32[2] int64[2]", args{0.0, 2.0, 2.0}}, "shape"},
	{sample{"ScatterReduce", "bool[2] int64[2] bool[2]", args{0.0, 0.0, 1.0}}, "dtype"}, {sample{"ScatterReduce", "float32[2] int64[2] float32[1]", args{0.0, 0.0, 1.0}}, "shape"},
	{sample{"ScatterReduce", "float32[2] int64[2] float32[2]", args{0.0, 5.0, 1.0}}, "value"},
}

func TestSelections_GiveWhatPyTorchGives(t *testing.T) {
	checkProgramFile(t, onHost(t), "selections.json")
}

func TestSelections_RefuseValues_AndKeepNothing(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []float64{1, 2, 3, 4, 5, 6}, 2, 3))
	ints := func(v ...int64) *tensor.Tensor { return must(t)(tensor.FromSlice(b.Exec, v)) }
	mask := must(t)(tensor.FromSlice(b.Exec, []bool{true, true}))
	three, negative, huge := ints(0, 1, 2), ints(3, -1), ints(1<<62)
	wrong, values := ints(0, 3), must(t)(tensor.Ones(b.Exec, tensor.Float64, 3))
	four := must(t)(tensor.Ones(b.Exec, tensor.Float64, 4))
	before := b.allocated()
	for _, c := range []struct {
		f    func() (*tensor.Tensor, error)
		want refusal
	}{
		{func() (*tensor.Tensor, error) { return negative.BinCount(nil, 0) }, "value"},
		{func() (*tensor.Tensor, error) { return huge.BinCount(nil, 0) }, "shape"},
		{func() (*tensor.Tensor, error) { return x.Index(mask, three) }, "shape"},
		{func() (*tensor.Tensor, error) { return x.IndexPut(tensors{mask}, four, false) }, "shape"},
	} {
		_, err := c.f()
		require.Equal(t, c.want, kindOf(err), "%v", err)
	}
	for _, f := range []func() (*tensor.Tensor, error){
		func() (*tensor.Tensor, error) { return x.Index(nil, wrong) }, func() (*tensor.Tensor, error) { return x.Index(wrong, wrong) },
		func() (*tensor.Tensor, error) { return x.Index(negative, negative) },
		func() (*tensor.Tensor, error) { return values.IndexFill(0, wrong, 1) },
	} {
		_, err := f()
		require.ErrorIs(t, err, tensor.ErrIndex)
	}
	require.Equal(t, before, b.allocated())
}

// What changes a tensor, whatever its layout, gives what makes a new one, and no more of its memory is written.
func TestIndexPutAndCopyInPlace_GiveWhatTheyGiveElsewhere(t *testing.T) {
	b := onHost(t)
	ints := func(v ...int64) *tensor.Tensor { return must(t)(tensor.FromSlice(b.Exec, v)) }
	mask := must(t)(tensor.FromSlice(b.Exec, []bool{true, false, true, false, false, false}, 2, 3))
	twice, negative := ints(1, 0, 1), ints(-1, 0, 0)
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.Int64, tensor.Uint8} {
		for name, view := range map[string]func(x *tensor.Tensor) *tensor.Tensor{
			"itself":     func(x *tensor.Tensor) *tensor.Tensor { return must(t)(x.Reshape(2, 3, 8)) },
			"transposed": func(x *tensor.Tensor) *tensor.Tensor { return must(t)(must(t)(x.Reshape(8, 3, 2)).Permute(2, 1, 0)) },
			"a part":     func(x *tensor.Tensor) *tensor.Tensor { return must(t)(must(t)(x.Reshape(2, 3, 8)).Slice(2, 1, 8, 3)) },
		} {
			numbers := must(t)(must(t)(tensor.Arange(b.Exec, 0, 48, 1, tensor.Int64)).To(dt))
			for k, at := range []tensors{{twice}, {nil, twice}, {negative, twice}, {nil, nil, twice}, {mask}, {twice, nil, negative}} {
				for _, accumulate := range []bool{false, true} {
					x := view(must(t)(numbers.Clone()))
					value := must(t)(must(t)(x.Index(at...)).AddScalar(1))
					value = must(t)(value.Flip(0))
					want := must(t)(x.IndexPut(at, value, accumulate))
					before := x.Version()
					require.NoError(t, x.IndexPutInPlace(at, value, accumulate))
					require.Equal(t, values(t, want), values(t, x), "%v %s %d %v", dt, name, k, accumulate)
					require.NotEqual(t, before, x.Version())
				}
			}
			for d := range 3 {
				x := view(must(t)(numbers.Clone()))
				src := must(t)(must(t)(x.IndexSelect(d, twice)).Flip(0, 1, 2))
				want := must(t)(x.IndexCopy(d, twice, src))
				require.NoError(t, x.IndexCopyInPlace(d-3, twice, src))
				require.Equal(t, values(t, want), values(t, x), "%v %s %d", dt, name, d)
			}
		}
	}
}

func TestIndexPutAndCopyInPlace_OfTheirOwnElementsReadThemFirst(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []int64{1, 2, 3, 0}))
	require.NoError(t, x.IndexPutInPlace(tensors{x}, x, false))
	require.Equal(t, []float64{0, 1, 2, 3}, values(t, x), "a rotation, not a smear")
	head := must(t)(x.Narrow(0, 0, 3))
	require.NoError(t, x.IndexCopyInPlace(0, must(t)(tensor.FromSlice(b.Exec, []int64{1, 2, 3})), head))
	require.Equal(t, []float64{0, 0, 1, 2}, values(t, x))
}

func TestIndexPutAndCopyInPlace_OfIndicesOutsideAreAnError_AndKeepNothing(t *testing.T) {
	b := onHost(t)
	x, wrong := must(t)(tensor.Ones(b.Exec, tensor.Float32, 3, 2)), must(t)(tensor.FromSlice(b.Exec, []int64{0, 3}))
	src := must(t)(tensor.Zeros(b.Exec, tensor.Float32, 2, 2))
	before := b.allocated()
	require.ErrorIs(t, x.IndexCopyInPlace(0, wrong, src), tensor.ErrIndex)
	require.ErrorIs(t, x.IndexPutInPlace(tensors{wrong}, src, false), tensor.ErrIndex)
	require.ErrorIs(t, x.IndexPutInPlace(tensors{wrong}, src, true), tensor.ErrIndex)
	require.Equal(t, before, b.allocated())
}
