package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/tensor"
)

func TestErrors_NameTheOperationAndTheValues(t *testing.T) {
	b := onHost(t)
	x, y := iota(t, b.Exec, 2, 3), iota(t, b.Exec, 4, 5)
	n := must(t)(tensor.Zeros(b.Exec, tensor.Int64, 2, 3))
	message := func(_ *tensor.Tensor, err error) string {
		require.Error(t, err)
		return err.Error()
	}
	require.Equal(t, "tensor: MatMul: [2, 3] and [4, 5]: inner dimensions differ (3 and 4)", message(x.MatMul(y)))
	require.Equal(t, "tensor: MatMul: float32 and int64: operands must have one type; To converts", message(x.MatMul(n)))
	require.Equal(t, "tensor: Mean: int64: needs a floating-point type", message(n.Mean(nil, false)))
	require.Equal(t, "tensor: Sum: [2, 3]: dimension 2 is not in -2..1", message(x.Sum([]int{2}, false)))
	require.Equal(t, "tensor: Reshape: [2, 3] and [4, -1]: 6 elements do not make this shape", message(x.Reshape(4, -1)))
	require.Equal(t, "tensor: Slice: step is 0; it must be at least 1", message(x.Slice(0, 0, 2, 0)))
	require.Equal(t, "tensor: Cat: no tensors", message(tensor.Cat(nil, 0)))
	x.Release()
	require.Equal(t, "tensor: Add: use after Release", message(x.Add(y)))
}

func TestErrors_KeepNoHandOnTheTensor(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 2, 3)
	_, err := x.MatMul(x)
	var wrong *tensor.ShapeError
	require.ErrorAs(t, err, &wrong)
	wrong.Shapes[0][0] = 77
	require.Equal(t, tensor.Shape{2, 3}, x.Shape())
}

func TestShapes_AreLimited(t *testing.T) {
	b := onHost(t)
	var wrong *tensor.ShapeError
	for _, shape := range [][]int{{-1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1 << 40, 1 << 40}, {math.MaxInt, 2}, {0, 1 << 40, 1 << 40}} {
		_, err := tensor.Empty(b.Exec, tensor.Float32, shape...)
		require.ErrorAs(t, err, &wrong, "%v", shape)
	}
	deep := must(t)(tensor.Empty(b.Exec, tensor.Float32, 1, 1, 1, 1, 1, 1, 1, 1))
	_, err := deep.Unsqueeze(0)
	require.ErrorAs(t, err, &wrong)
	_, err = tensor.Stack(tensors{deep}, 0)
	require.ErrorAs(t, err, &wrong)
	_, err = deep.View(1, 1, 1, 1, 1, 1, 1, 1, 1)
	require.ErrorAs(t, err, &wrong)
	_, err = deep.Expand(1, 1, 1, 1, 1, 1, 1, 1, 1)
	require.ErrorAs(t, err, &wrong)

	// Shapes that are legal by themselves may broadcast to one that is not.
	column := must(t)(iota(t, b.Exec, 1).Expand(1<<30, 1))
	row := must(t)(iota(t, b.Exec, 1).Expand(1, 1<<30))
	_, err = column.Add(row)
	require.ErrorAs(t, err, &wrong)
	var dt *tensor.DTypeError
	_, err = tensor.Empty(b.Exec, dtype.Invalid, 1)
	require.ErrorAs(t, err, &dt)
}

func TestArange_CountsAsPyTorchDoes(t *testing.T) {
	b := onHost(t)
	for _, c := range []struct {
		start, end, step float64
		dt               tensor.DType
		want             []float64
	}{
		{0, 5, 1, tensor.Int64, []float64{0, 1, 2, 3, 4}}, {1, 2, 0.25, tensor.Float32, []float64{1, 1.25, 1.5, 1.75}},
		{5, 0, -2, tensor.Int32, []float64{5, 3, 1}}, {0, 1, 0.3, tensor.Float64, []float64{0, 0.3, 0.6, 0.8999999999999999}},
		{3, 3, 1, tensor.Float32, []float64{}}, {0, 7, 3, tensor.Uint8, []float64{0, 3, 6}},
	} {
		require.Equal(t, c.want, append([]float64{}, values(t, must(t)(tensor.Arange(b.Exec, c.start, c.end, c.step, c.dt)))...))
	}
	var value *tensor.ValueError
	var dt *tensor.DTypeError
	for _, c := range [][3]float64{{0, 1, 0}, {0, 1, -1}, {1, 0, 1}, {0, math.NaN(), 1}, {0, math.Inf(1), 1}, {0, 1e18, 1e-3}} {
		_, err := tensor.Arange(b.Exec, c[0], c[1], c[2], tensor.Float32)
		require.ErrorAs(t, err, &value, "%v", c)
	}
	_, err := tensor.Arange(b.Exec, 0, 3, 0.5, tensor.Int64)
	require.ErrorAs(t, err, &value)
	_, err = tensor.Arange(b.Exec, 0, 3, 1, tensor.Bool)
	require.ErrorAs(t, err, &dt)
}

func TestCreation_FillsEveryType(t *testing.T) {
	b := onHost(t)
	for _, dt := range dtype.All() {
		require.Equal(t, []float64{0, 0, 0}, values(t, must(t)(tensor.Zeros(b.Exec, dt, 3))), dt)
		require.Equal(t, []float64{1, 1, 1}, values(t, must(t)(tensor.Ones(b.Exec, dt, 3))), dt)
		want := 2.0
		if dt == tensor.Bool {
			want = 1
		}
		require.Equal(t, []float64{want, want}, values(t, must(t)(tensor.Full(b.Exec, 2, dt, 2))), dt)
		require.Equal(t, []float64{1, 0, 0, 1}, values(t, must(t)(tensor.Eye(b.Exec, dt, 2))), dt)
	}
	half := must(t)(tensor.Full(b.Exec, 0.5, tensor.Bool, 1))
	require.Equal(t, []float64{1}, values(t, half), "what is not 0 is true")
	negative := must(t)(tensor.Full(b.Exec, math.Copysign(0, -1), tensor.Float32, 1))
	require.True(t, math.Signbit(values(t, negative)[0]))
	require.Empty(t, values(t, must(t)(tensor.Eye(b.Exec, tensor.Float32, 0))))
	s := must(t)(tensor.Scalar(b.Exec, 3, tensor.Float16))
	require.Equal(t, 0, s.NDim())
	require.Equal(t, 1, s.Len())
}

func TestFacts_DescribeTheHandle(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 2, 3, 4)
	require.Equal(t, tensor.Shape{2, 3, 4}, x.Shape())
	require.Equal(t, []int{12, 4, 1}, x.Strides())
	require.Equal(t, []int{2, 3, 4, 4, 3, 2}, []int{x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(-1), x.Dim(-2), x.Dim(-3)})
	require.Equal(t, []int{0, 0}, []int{x.Dim(3), x.Dim(-4)})
	require.Equal(t, 3, x.NDim())
	require.Equal(t, 24, x.Len())
	require.Equal(t, tensor.Float32, x.DType())
	require.Equal(t, b.Exec, x.Exec())
	require.Equal(t, b.Device(), x.Device())
	require.EqualValues(t, 512, x.StorageBytes())
	require.True(t, x.IsContiguous())
	y := must(t)(x.Transpose(0, 2))
	require.False(t, y.IsContiguous())
	require.Equal(t, []int{1, 4, 12}, y.Strides())
	same := must(t)(x.To(tensor.Float32))
	require.True(t, same.SharesStorage(x))
	again := must(t)(x.Contiguous())
	require.True(t, again.SharesStorage(x))
	packed := must(t)(y.Contiguous())
	require.False(t, packed.SharesStorage(x))
	clone := must(t)(x.Clone())
	require.False(t, clone.SharesStorage(x))
}
