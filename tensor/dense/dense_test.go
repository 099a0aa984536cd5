package dense_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	gorgonia "gorgonia.org/tensor"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/dense"
)

// onHost is an Exec on a host device of its own. What the tests make must be released.
func onHost(t *testing.T) tensor.Exec {
	t.Helper()
	return on(t, host.New())
}

func on(t *testing.T, dev device.Device) tensor.Exec {
	t.Helper()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	return e
}

func must(t *testing.T) func(*tensor.Tensor, error) *tensor.Tensor {
	return func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(x.Release)
		return x
	}
}

func values(t *testing.T, x *tensor.Tensor) []float64 {
	t.Helper()
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

func TestDense_CarriesEveryTypeBothWays(t *testing.T) {
	e := onHost(t)
	backings := map[string]any{
		"float32": []float32{1, 2, 3, 4, 5, 6}, "float64": []float64{1, 2, 3, 4, 5, 6},
		"int64": []int64{1, 2, 3, 4, 5, 6}, "int32": []int32{1, 2, 3, 4, 5, 6},
		"uint8": []uint8{1, 2, 3, 4, 5, 6}, "bool": []bool{true, false, true, false, true, true},
	}
	for name, backing := range backings {
		d := gorgonia.New(gorgonia.WithShape(2, 3), gorgonia.WithBacking(backing))
		x := must(t)(dense.ToTensor(e, d))
		require.Equal(t, name, x.DType().String())
		require.Equal(t, tensor.Shape{2, 3}, x.Shape())
		back, err := dense.FromTensor(x)
		require.NoError(t, err)
		require.Equal(t, d.Data(), back.Data())
		require.Equal(t, d.Shape(), back.Shape())
		require.Equal(t, gorgonia.Shape{2, 3}, gorgonia.Shape(x.Shape()))
	}
	ints := must(t)(dense.ToTensor(e, gorgonia.New(gorgonia.WithBacking([]int{1, -2, 3}))))
	require.Equal(t, tensor.Int64, ints.DType())
	require.Equal(t, []float64{1, -2, 3}, values(t, ints))
	scalar := must(t)(dense.ToTensor(e, gorgonia.New(gorgonia.FromScalar(2.5))))
	require.Equal(t, 0, scalar.NDim())
	back, err := dense.FromTensor(scalar)
	require.NoError(t, err)
	require.Equal(t, 2.5, back.ScalarValue())
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		half := must(t)(ints.To(dt))
		d, err := dense.FromTensor(half)
		require.NoError(t, err)
		require.Equal(t, []float32{1, -2, 3}, d.Data())
	}
}

func TestToTensor_ReadsViewsInRowMajorOrder(t *testing.T) {
	e := onHost(t)
	fresh := func() *gorgonia.Dense {
		return gorgonia.New(gorgonia.WithShape(3, 4), gorgonia.WithBacking(gorgonia.Range(gorgonia.Float32, 0, 12)))
	}
	transposed := fresh()
	require.NoError(t, transposed.T())
	x := must(t)(dense.ToTensor(e, transposed))
	require.Equal(t, tensor.Shape{4, 3}, x.Shape())
	require.Equal(t, []float64{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}, values(t, x))

	part, err := fresh().Slice(gorgonia.S(1, 3), gorgonia.S(1, 3))
	require.NoError(t, err)
	x = must(t)(dense.ToTensor(e, part.(*gorgonia.Dense)))
	require.Equal(t, []float64{5, 6, 9, 10}, values(t, x))

	column, err := fresh().Slice(nil, gorgonia.S(2))
	require.NoError(t, err)
	x = must(t)(dense.ToTensor(e, column.(*gorgonia.Dense)))
	require.Equal(t, tensor.Shape{3}, x.Shape())
	require.Equal(t, []float64{2, 6, 10}, values(t, x))

	element, err := fresh().Slice(gorgonia.S(1), gorgonia.S(2))
	require.NoError(t, err)
	x = must(t)(dense.ToTensor(e, element.(*gorgonia.Dense)))
	require.Equal(t, []float64{6}, values(t, x))

	byColumns := gorgonia.New(gorgonia.AsFortran([]float32{1, 4, 2, 5, 3, 6}), gorgonia.WithShape(2, 3))
	x = must(t)(dense.ToTensor(e, byColumns))
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, values(t, x))
}

func TestToTensor_ReadsVectorsThatAreMatricesAndPermutedTensors(t *testing.T) {
	e := onHost(t)
	for dims, want := range map[[2]int]gorgonia.Shape{{3, 1}: {3, 1}, {1, 3}: {1, 3}} { // vectors that are matrices
		v := gorgonia.New(gorgonia.WithShape(dims[0], dims[1]), gorgonia.WithBacking([]float32{1, 2, 3}))
		x := must(t)(dense.ToTensor(e, v))
		require.Equal(t, want, gorgonia.Shape(x.Shape()))
		require.Equal(t, []float64{1, 2, 3}, values(t, x))
		require.NoError(t, v.T())
		x = must(t)(dense.ToTensor(e, v))
		require.Equal(t, []float64{1, 2, 3}, values(t, x))
	}
	cube := gorgonia.New(gorgonia.WithShape(2, 1, 3), gorgonia.WithBacking([]float64{1, 2, 3, 4, 5, 6}))
	require.NoError(t, cube.T(2, 0, 1))
	x := must(t)(dense.ToTensor(e, cube))
	require.Equal(t, tensor.Shape{3, 2, 1}, x.Shape())
	require.Equal(t, []float64{1, 4, 2, 5, 3, 6}, values(t, x))
}

func TestToTensor_RefusesWhatHasNoCounterpart(t *testing.T) {
	e := onHost(t)
	var dtype *tensor.DTypeError
	_, err := dense.ToTensor(e, gorgonia.New(gorgonia.WithBacking([]string{"a", "b"})))
	require.ErrorAs(t, err, &dtype)
	var value *tensor.ValueError
	for _, d := range []*gorgonia.Dense{nil, new(gorgonia.Dense)} {
		_, err = dense.ToTensor(e, d)
		require.ErrorAs(t, err, &value)
	}
	masked := gorgonia.New(gorgonia.WithBacking([]float32{1, 2}, []bool{true, false}))
	_, err = dense.ToTensor(e, masked)
	require.ErrorAs(t, err, &value)
	var shape *tensor.ShapeError
	_, err = dense.FromTensor(must(t)(tensor.Zeros(e, tensor.Float32, 0, 2)))
	require.ErrorAs(t, err, &shape)
}

func TestFromTensor_ReportsWhatCannotBeRead(t *testing.T) {
	dev := sim.New(64 * device.MiB)
	e := on(t, dev)
	x := must(t)(tensor.Zeros(e, tensor.Float32, 2))
	fault := errors.New("injected")
	dev.FailNext(sim.CallCopyToHost, 1, fault)
	_, err := dense.FromTensor(x)
	require.ErrorIs(t, err, fault)
	gone := must(t)(tensor.Zeros(e, tensor.Int64, 2))
	gone.Release()
	for _, x := range []*tensor.Tensor{gone, nil} {
		_, err = dense.FromTensor(x)
		require.ErrorIs(t, err, tensor.ErrReleased)
	}
}

func TestToTensor_KeepsNothingWhenTheCopyFails(t *testing.T) {
	dev := sim.New(64 * device.MiB)
	e := on(t, dev)
	fault := errors.New("injected")
	dev.FailNext(sim.CallCopyToDevice, 1, fault)
	_, err := dense.ToTensor(e, gorgonia.New(gorgonia.WithBacking([]float32{1, 2})))
	require.ErrorIs(t, err, fault)
	require.Zero(t, e.Allocator().Stats().AllocatedBytes.All.Current)
}
