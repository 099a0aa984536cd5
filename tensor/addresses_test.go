package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestAddresses_AreThoseOfTheFirstElements(t *testing.T) {
	dev := sim.New(1<<30, sim.ManualStreams())
	defer func() { require.NoError(t, dev.Close()) }()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	other, err := dev.NewStream()
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	side, err := tensor.On(dev, tensor.WithAllocator(alloc), tensor.WithStream(other))
	require.NoError(t, err)
	x, err := tensor.Zeros(e, tensor.Float32, 6, 4)
	require.NoError(t, err)
	part, err := x.Narrow(0, 2, 3)
	require.NoError(t, err)
	at, err := tensor.Addresses(training.Key{}, side, x, part)
	require.NoError(t, err)
	require.EqualValues(t, 2*4*4, uint64(at[1])-uint64(at[0]))
	require.NoError(t, other.Fill(at[1], 0, 48))

	column, err := x.Narrow(1, 0, 1)
	require.NoError(t, err)
	_, err = tensor.Addresses(training.Key{}, side, column)
	var shape *tensor.ShapeError
	require.ErrorAs(t, err, &shape, "not in one run")
	_, err = tensor.Addresses(training.Key{}, side, nil)
	require.ErrorIs(t, err, tensor.ErrReleased)
	_, err = tensor.Addresses(training.Key{}, tensor.Exec{}, x)
	require.Error(t, err)
	elsewhere, err := tensor.On(host.New())
	require.NoError(t, err)
	_, err = tensor.Addresses(training.Key{}, elsewhere, x)
	var device *tensor.DeviceError
	require.ErrorAs(t, err, &device)

	for _, h := range []*tensor.Tensor{x, part, column} {
		h.Release()
	}
	require.Zero(t, alloc.Stats().ActiveBytes.All.Current, "the caller has waited")
	require.NoError(t, other.Close())
	y, err := tensor.Zeros(e, tensor.Float32, 2)
	require.NoError(t, err)
	require.Error(t, alloc.Close(), "y is there")
	_, err = tensor.Addresses(training.Key{}, side, y)
	require.Error(t, err, "its memory is gone")
}

func TestPlaceIn_IsTheSameViewOfAnotherStorage(t *testing.T) {
	e, err := tensor.On(host.New())
	require.NoError(t, err)
	x, err := tensor.Arange(e, 0, 24, 1, tensor.Float32)
	require.NoError(t, err)
	defer x.Release()
	y, err := x.AddScalar(100)
	require.NoError(t, err)
	defer y.Release()
	run, err := x.Narrow(0, 4, 12)
	require.NoError(t, err)
	defer run.Release()
	rows, err := run.View(3, 4)
	require.NoError(t, err)
	defer rows.Release()
	view, err := rows.Transpose(0, 1)
	require.NoError(t, err)
	defer view.Release()
	same, err := tensor.PlaceIn(training.Key{}, view).At(y, e)
	require.NoError(t, err)
	defer same.Release()
	require.True(t, same.SharesStorage(y))
	want, err := view.AddScalar(100)
	require.NoError(t, err)
	defer want.Release()
	equal, err := want.Equal(same)
	require.NoError(t, err)
	require.True(t, equal)

	short, err := tensor.Zeros(e, tensor.Float32, 1)
	require.NoError(t, err)
	defer short.Release()
	far, err := x.Narrow(0, 23, 1)
	require.NoError(t, err)
	defer far.Release()
	_, err = tensor.PlaceIn(training.Key{}, far).At(nil, e)
	require.ErrorIs(t, err, tensor.ErrReleased)
	large, err := tensor.Zeros(e, tensor.Float32, 1<<12)
	require.NoError(t, err)
	defer large.Release()
	end, err := large.Narrow(0, 1<<12-1, 1)
	require.NoError(t, err)
	defer end.Release()
	_, err = tensor.PlaceIn(training.Key{}, end).At(short, e)
	var shape *tensor.ShapeError
	require.ErrorAs(t, err, &shape, "outside of the storage")
	half, err := x.To(tensor.Float16)
	require.NoError(t, err)
	defer half.Release()
	_, err = tensor.PlaceIn(training.Key{}, far).At(half, e)
	var dtype *tensor.DTypeError
	require.ErrorAs(t, err, &dtype)
}
