package tensor_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// placed is a shape and strides.
type placed [2][]int

// as makes a tensor of ones of the shape and strides.
func (p placed) as(t *testing.T, e tensor.Exec) *tensor.Tensor {
	t.Helper()
	size := 1
	for d, n := range p[0] {
		size += max(n-1, 0) * p[1][d]
	}
	return must(t)(tensor.Strided(must(t)(tensor.Ones(e, tensor.Float32, size)), p[0], p[1]), nil)
}

// What PyTorch says of 400 layouts: of each whether it is contiguous in either format, and which format results have.
func TestMemoryFormat_IsPyTorchs(t *testing.T) {
	var golden struct{ Layouts, Results, Singles, Empty [][]json.RawMessage }
	text, err := os.ReadFile("testdata/memoryformat.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &golden))
	require.NotEmpty(t, golden.Layouts)
	require.NotEmpty(t, golden.Singles)
	require.NotEmpty(t, golden.Empty)
	read := func(raw json.RawMessage, to any) {
		t.Helper()
		require.NoError(t, json.Unmarshal(raw, to))
	}
	b := onHost(t)
	for _, l := range golden.Layouts {
		var p placed
		var first, last, format bool
		for i, to := range []any{&p[0], &p[1], &first, &last, &format} {
			read(l[i], to)
		}
		x := p.as(t, b.Exec)
		require.Equal(t, first, x.IsContiguousIn(tensor.ContiguousFormat), "%v", p)
		require.Equal(t, last, x.IsContiguousIn(tensor.ChannelsLast), "%v", p)
		require.Equal(t, format, x.MemoryFormat() == tensor.ChannelsLast, "%v", p)
		require.Equal(t, first || last, x.InMemoryFormat())
	}
	for _, l := range golden.Empty {
		var p placed
		var first, last bool
		var as []int
		for i, to := range []any{&p[0], &p[1], &first, &last, &as} {
			read(l[i], to)
		}
		x := must(t)(tensor.Strided(must(t)(tensor.Ones(b.Exec, tensor.Float32, 1000)), p[0], p[1]), nil)
		require.Equal(t, first, x.IsContiguousIn(tensor.ContiguousFormat), "%v", p)
		require.Equal(t, last, x.IsContiguousIn(tensor.ChannelsLast), "%v", p)
		require.Equal(t, as, must(t)(x.ToMemoryFormat(tensor.ChannelsLast)).Strides(), "%v", p)
	}
	for _, row := range append(golden.Results, golden.Singles...) {
		var name string
		var operands []placed
		var want []int
		read(row[0], &name)
		read(row[1], &operands)
		read(row[2], &want)
		var in []*tensor.Tensor
		for _, p := range operands {
			in = append(in, p.as(t, b.Exec))
		}
		f := formatted[name]
		require.NotNil(t, f, name)
		got := must(t)(f(in))
		assert.Equal(t, want, got.Strides(), "%s of %v", name, operands)
	}
}

// formatted are the operations of the file.
var formatted = map[string]func(in []*tensor.Tensor) (*tensor.Tensor, error){
	"Neg":        func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Neg() },
	"Exp":        func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Exp() },
	"Sqrt":       func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Sqrt() },
	"Reciprocal": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Reciprocal() },
	"Sin":        func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Sin() },
	"Abs":        func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Abs() },
	"Floor":      func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Floor() },
	"Square":     func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Square() },
	"Sigmoid":    func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Sigmoid() },
	"GELU":       func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].GELU() },
	"SiLU":       func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].SiLU() },
	"Softplus":   func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Softplus(1, 20) },
	"ELU":        func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].ELU(1) },
	"LeakyReLU":  func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].LeakyReLU(0.1) },
	"Logit":      func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Logit(-1) },
	"Hardtanh":   func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Hardtanh(-1, 1) },
	"ReLU6":      func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].ReLU6() },
	"Softshrink": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Softshrink(0.5) },
	"IsNaN":      func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].IsNaN() },
	"IsFinite":   func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].IsFinite() },
	"Not":        func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Not() },
	"PowScalar":  func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].PowScalar(3) },
	"Clamp":      func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Clamp(0, 1) },
	"SubScalar":  func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].SubScalar(1) },
	"MulScalar":  func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].MulScalar(2) },
	"DivScalar":  func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].DivScalar(2) },
	"RSubScalar": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].RSubScalar(1) },
	"RDivScalar": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].RDivScalar(1) },
	"RPowScalar": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].RPowScalar(2) },
	"FmodScalar": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].FmodScalar(2) },
	"GtScalar":   func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].GtScalar(0) },
	"ToHalf":     func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].To(tensor.Float16) },
	"ToBool":     func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].To(tensor.Bool) },
	"OnesLike":   func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].OnesLike() },
	"FlipNone":   func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Flip() },
	"ArgSort":    func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].ArgSort(2, false) },
	"AddSelf":    func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Add(in[0]) },
	"Dropout":    func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Dropout(tensor.NewGenerator(1), 0.5) },
	"IsFiniteOfIntegers": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		return ofIntegers(in[0], func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.IsFinite() })
	},
	"AddScalarOfIntegers": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		return ofIntegers(in[0], func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.AddScalar(1.5) })
	},
	"ExpOfIntegers": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		return ofIntegers(in[0], func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Exp() })
	},
	"FloorOfIntegers": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		return ofIntegers(in[0], func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Floor() })
	},
	"Sort": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		values, indices, err := in[0].Sort(1, false)
		indices.Release()
		return values, err
	},
	"TopK": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		values, indices, err := in[0].TopK(1, 1, true)
		indices.Release()
		return values, err
	},
	"AddScalar": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].AddScalar(1) },
	"ReLU":      func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].ReLU() },
	"To":        func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].To(tensor.Float64) },
	"EmptyLike": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].EmptyLike() },
	"ZerosLike": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].ZerosLike() },
	"Clone":     func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Clone() },
	"MaxPool2d": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		return firstOf(in[0].MaxPool2d(tensor.Pool{Kernel: []int{2}}))
	},
	"AvgPool2d": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		return in[0].AvgPool2d(tensor.Pool{Kernel: []int{2}})
	},
	"AdaptiveAvgPool2d": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].AdaptiveAvgPool2d(2, 3) },
	"UpsampleNearest2d": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		return in[0].UpsampleNearest2d(tensor.Upsample{Scale: []float64{2}})
	},
	"UpsampleBilinear2d": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		return in[0].UpsampleBilinear2d(tensor.Upsample{Scale: []float64{2}})
	},
	"Pad": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		return in[0].Pad([]int{1, 2, 0, 1}, tensor.PadConstant, 0)
	},
	"Flip": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Flip(2) },
	"BatchNorm": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		out, m, err := tensor.BatchNormTraining(in[0], nil, nil, nil, nil, 0.1, 1e-5)
		m.Release()
		return out, err
	},
	"Conv2d":     func(in []*tensor.Tensor) (*tensor.Tensor, error) { return convolved(in[0], tensor.ContiguousFormat) },
	"Conv2dLast": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return convolved(in[0], tensor.ChannelsLast) },
	"Softmax":    func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Softmax(1) },
	"Add":        func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Add(in[1]) },
	"Where": func(in []*tensor.Tensor) (*tensor.Tensor, error) {
		cond, err := in[0].GtScalar(0)
		if err != nil {
			return nil, err
		}
		defer cond.Release()
		return tensor.Where(cond, in[0], in[1])
	},
	"Cat":  func(in []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Cat(in, 1) },
	"Lerp": func(in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].LerpScalar(in[1], 0.5) },
}

func ofIntegers(x *tensor.Tensor, f func(*tensor.Tensor) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	n, err := x.To(tensor.Int32)
	if err != nil {
		return nil, err
	}
	defer n.Release()
	return f(n)
}

func convolved(x *tensor.Tensor, f tensor.MemoryFormat) (*tensor.Tensor, error) {
	w, err := tensor.EmptyIn(x.Exec(), f, x.DType(), 4, x.Dim(1), 3, 3)
	if err != nil {
		return nil, err
	}
	defer w.Release()
	if err := w.FillInPlace(1); err != nil {
		return nil, err
	}
	return tensor.Conv2d(x, w, nil, tensor.Conv{Padding: []int{1}})
}

func TestToMemoryFormat_CopiesOnlyWhatLiesOtherwise(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.RandN(b.Exec, tensor.NewGenerator(1), tensor.Float32, 2, 3, 4, 5))
	last := must(t)(x.ToMemoryFormat(tensor.ChannelsLast))
	require.Equal(t, []int{60, 1, 15, 3}, last.Strides())
	require.Equal(t, values(t, x), values(t, last))
	require.Equal(t, x.StorageBytes(), last.StorageBytes())
	require.True(t, must(t)(last.ToMemoryFormat(tensor.ChannelsLast)).SharesStorage(last))
	require.Equal(t, x.Strides(), must(t)(last.ToMemoryFormat(tensor.ContiguousFormat)).Strides())

	// One place has both orders: strides say which is meant, without a copy.
	one := must(t)(tensor.Ones(b.Exec, tensor.Float32, 4, 3, 1, 1))
	named := must(t)(one.ToMemoryFormat(tensor.ChannelsLast))
	require.True(t, named.SharesStorage(one))
	require.Equal(t, tensor.ContiguousFormat, one.MemoryFormat())
	require.Equal(t, tensor.ChannelsLast, named.MemoryFormat())

	deep := must(t)(must(t)(tensor.Ones(b.Exec, tensor.Float16, 2, 3, 2, 4, 5)).ToMemoryFormat(tensor.ChannelsLast3d))
	require.Equal(t, []int{120, 1, 60, 15, 3}, deep.Strides())
	require.Equal(t, tensor.ChannelsLast3d, must(t)(deep.To(tensor.Float32)).MemoryFormat())

	var shape *tensor.ShapeError
	_, err := tensor.EmptyIn(b.Exec, tensor.ChannelsLast, tensor.Float32, 2, 3)
	require.ErrorAs(t, err, &shape)
	var value *tensor.ValueError
	_, err = tensor.EmptyIn(b.Exec, 9, tensor.Float32, 2, 3)
	require.ErrorAs(t, err, &value)
	require.Equal(t, "channels_last_3d", tensor.ChannelsLast3d.String())
	require.Equal(t, "unknown", tensor.MemoryFormat(9).String())
	require.Equal(t, tensor.ContiguousFormat, (*tensor.Tensor)(nil).MemoryFormat())
}
