package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestInPlace_ChangesAreSeenThroughEveryViewAndMoveTheVersion(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 2, 3)
	column := must(t)(x.Select(1, 1))
	v := x.Version()
	require.NoError(t, column.FillInPlace(9))
	require.Equal(t, []float64{0, 9, 2, 3, 9, 5}, values(t, x))
	require.Equal(t, v+1, x.Version())
	require.NoError(t, column.MulScalarInPlace(2))
	require.NoError(t, x.AddInPlace(must(t)(column.Unsqueeze(1)), 0.5))
	require.Equal(t, []float64{9, 27, 11, 12, 27, 14}, values(t, x))
	require.Equal(t, v+3, column.Version())
	var wrong *tensor.ShapeError
	require.ErrorAs(t, x.AddInPlace(column, 1), &wrong, "[2] does not broadcast to [2 3]")
}

func TestFillInPlace_OfAnExpandedTensorFillsWhatItShares(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 3, 1)
	wide := must(t)(x.Expand(3, 4))
	require.NoError(t, wide.FillInPlace(2))
	require.Equal(t, []float64{2, 2, 2}, values(t, x))
	require.NoError(t, wide.ZeroInPlace())
	require.Equal(t, []float64{0, 0, 0}, values(t, x))
}

func TestInPlace_RefusesTensorsWhoseElementsShareAnAddress(t *testing.T) {
	b := onHost(t)
	wide := must(t)(iota(t, b.Exec, 3, 1).Expand(3, 2))
	full := iota(t, b.Exec, 3, 2)
	idx := must(t)(tensor.FromSlice(b.Exec, []int64{0, 1, 2}))
	var wrong *tensor.ShapeError
	for name, err := range map[string]error{
		"CopyFrom":         wide.CopyFrom(full),
		"AddInPlace":       wide.AddInPlace(full, 1),
		"MulScalarInPlace": wide.MulScalarInPlace(2),
		"IndexAddInPlace":  wide.IndexAddInPlace(0, idx, full),
		"IndexCopyInPlace": wide.IndexCopyInPlace(0, idx, full),
		"IndexPutInPlace":  wide.IndexPutInPlace(tensors{idx}, full, false),
		"CopyFromSlice":    tensor.CopyFromSlice(wide, make([]float32, 6)),
	} {
		require.ErrorAs(t, err, &wrong, name)
		require.Equal(t, name, wrong.Op)
	}
	require.Zero(t, wide.Version(), "nothing was written")
}

func TestInPlace_OverlappingOperandsAreReadBeforeTheyAreWritten(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 6)
	head, tail := must(t)(x.Narrow(0, 0, 5)), must(t)(x.Narrow(0, 1, 5))
	require.NoError(t, tail.AddInPlace(head, 1))
	require.Equal(t, []float64{0, 1, 3, 5, 7, 9}, values(t, x))
	require.NoError(t, tail.CopyFrom(head))
	require.Equal(t, []float64{0, 0, 1, 3, 5, 7}, values(t, x))
	require.NoError(t, x.AddInPlace(x, 2), "the very same elements need no copy")
	require.Equal(t, []float64{0, 0, 3, 9, 15, 21}, values(t, x))

	square := iota(t, b.Exec, 3, 3)
	require.NoError(t, square.CopyFrom(must(t)(square.T())))
	require.Equal(t, []float64{0, 3, 6, 1, 4, 7, 2, 5, 8}, values(t, square))
	idx := must(t)(tensor.FromSlice(b.Exec, []int64{2, 1, 0}))
	require.NoError(t, square.IndexAddInPlace(0, idx, square))
	require.Equal(t, []float64{2, 8, 14, 2, 8, 14, 2, 8, 14}, values(t, square))
}

func TestCopyFrom_ConvertsAndBroadcasts(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.Zeros(b.Exec, tensor.Int32, 2, 3))
	require.NoError(t, x.CopyFrom(must(t)(tensor.FromSlice(b.Exec, []float64{1.9, -2.9, 3}))))
	require.Equal(t, []float64{1, -2, 3, 1, -2, 3}, values(t, x))
	var wrong *tensor.ShapeError
	require.ErrorAs(t, x.CopyFrom(iota(t, b.Exec, 2, 2, 3)), &wrong)
	v := x.Version()
	require.NoError(t, x.CopyFrom(x), "a copy to itself does nothing")
	require.Equal(t, v, x.Version())
}

func TestAddInPlace_KeepsTheDestinationsType(t *testing.T) {
	b := onHost(t)
	half := must(t)(tensor.Ones(b.Exec, tensor.Float16, 2))
	require.NoError(t, half.AddInPlace(must(t)(tensor.FromSlice(b.Exec, []float32{0.0004, 3})), 2))
	require.Equal(t, tensor.Float16, half.DType())
	require.Equal(t, []float64{1.0009765625, 7}, values(t, half), "1.0008 rounds once, to the nearest float16")
	n := must(t)(tensor.FromSlice(b.Exec, []int64{1, 2}))
	require.NoError(t, n.AddInPlace(must(t)(tensor.FromSlice(b.Exec, []uint8{5, 6})), -1))
	require.Equal(t, []float64{-4, -4}, values(t, n))
	var wrong *tensor.DTypeError
	require.ErrorAs(t, n.AddInPlace(half, 1), &wrong)
	flags := must(t)(tensor.FromSlice(b.Exec, []bool{true, false}))
	require.ErrorAs(t, flags.AddInPlace(flags, 1), &wrong)
	require.ErrorAs(t, flags.MulScalarInPlace(1), &wrong)
	var value *tensor.ValueError
	require.ErrorAs(t, n.AddInPlace(n, 0.5), &value)
	require.ErrorAs(t, n.MulScalarInPlace(0.5), &value)
	require.Equal(t, []float64{-4, -4}, values(t, n))
}
