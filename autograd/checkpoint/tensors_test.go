package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// hostExec is an Exec whose allocator must be empty at the end.
func hostExec(t *testing.T) (tensor.Exec, *memory.Caching) {
	t.Helper()
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	})
	return e, alloc
}

func made[T tensor.Element](t *testing.T, e tensor.Exec, data []T, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromSlice(e, data, shape...)
	require.NoError(t, err)
	t.Cleanup(x.Release)
	return x
}

func float64s(t *testing.T, x *tensor.Tensor) []float64 {
	t.Helper()
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

func bytesOf(t *testing.T, c *checkpoint.Checkpoint) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, c.Write(context.Background(), &file))
	return file.Bytes()
}

func TestTensor_OfEveryTypeComesBackInPlace(t *testing.T) {
	e, alloc := hostExec(t)
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool} {
		wide := made(t, e, []float64{1, 0, 3, 4, 5, 6}, 2, 3)
		from, err := wide.To(dt)
		require.NoError(t, err)
		into, err := tensor.Zeros(e, dt, 3, 2)
		require.NoError(t, err)
		view, err := into.T() // which is not contiguous
		require.NoError(t, err)
		held := alloc.Stats().AllocatedBytes.All.Current
		file := bytesOf(t, checkpoint.New().Add("mean", checkpoint.Tensor(from)))
		require.NoError(t, checkpoint.New().Add("mean", checkpoint.Tensor(view)).Read(context.Background(), bytes.NewReader(file)))
		require.Equal(t, float64s(t, from), float64s(t, view), dt)
		require.Equal(t, held, alloc.Stats().AllocatedBytes.All.Current)
		for _, x := range []*tensor.Tensor{from, into, view} {
			x.Release()
		}
	}
	scalar, empty := made(t, e, []float32{7}, []int{}...), made(t, e, []float32{}, 0, 3)
	ts := map[string]*tensor.Tensor{"a.b": scalar, "": empty}
	file := bytesOf(t, checkpoint.New().Add("x", checkpoint.Tensors(ts)))
	require.NoError(t, scalar.ZeroInPlace())
	require.NoError(t, checkpoint.New().Add("x", checkpoint.Tensors(ts)).Read(context.Background(), bytes.NewReader(file)))
	require.Equal(t, []float64{7}, float64s(t, scalar))
}

func TestTensor_IsInTheFileUnderTheSectionsName(t *testing.T) {
	e, _ := hostExec(t)
	a, b := made(t, e, []float32{1}), made(t, e, []float32{2})
	ts := map[string]*tensor.Tensor{"rewards": a}
	c := checkpoint.New().Add("mean", checkpoint.Tensor(a)).Add("replay", checkpoint.Tensors(ts))
	ts["states"] = b // a program may put other tensors into the map
	f, err := safetensors.NewReader(bytes.NewReader(bytesOf(t, c)))
	require.NoError(t, err)
	var names []string
	for _, entry := range f.Entries {
		names = append(names, entry.Name)
	}
	require.ElementsMatch(t, []string{"mean.value", "replay.rewards", "replay.states"}, names)
}

func TestTensors_RefuseAnotherFileBeforeAnythingChanges(t *testing.T) {
	e, _ := hostExec(t)
	x, y := made(t, e, []float32{1, 2}), made(t, e, []int64{3})
	file := bytesOf(t, checkpoint.New().Add("step", checkpoint.Value(new(int))).Add("x", checkpoint.Tensors(map[string]*tensor.Tensor{"x": x, "y": y})))
	row := made(t, e, []float32{9}, 1)
	wide, err := row.Expand(2)
	require.NoError(t, err)
	defer wide.Release()
	gone := made(t, e, []float32{9})
	gone.Release()
	own := made(t, e, []float32{8, 8})
	count := made(t, e, []int64{8})
	for want, ts := range map[string]map[string]*tensor.Tensor{
		"checkpoint: x: y: wanted nothing, found shape [1]":                                              {"x": own},
		"checkpoint: x: z: wanted shape [1], found nothing":                                              {"x": own, "y": count, "z": count},
		"checkpoint: x: x: wanted shape [1], found shape [2]; y: wanted shape [2], found shape [1]":      {"x": count, "y": own},
		"checkpoint: x: y: wanted type float32, found type int64":                                        {"x": own, "y": row},
		"checkpoint: x: tensor: Prepare of x: [2]: several elements share an address; read into a Clone": {"x": wide, "y": count},
		`checkpoint: x: the tensor "y" is nil`:                                                           {"x": own, "y": nil},
		"checkpoint: x: tensor: Prepare of y: use after Release":                                         {"x": own, "y": gone},
	} {
		step := 5
		err := checkpoint.New().Add("step", checkpoint.Value(&step)).Add("x", checkpoint.Tensors(ts)).Read(context.Background(), bytes.NewReader(file))
		require.EqualError(t, err, want)
		require.Equal(t, 5, step)
		require.Equal(t, []float64{8, 8}, float64s(t, own))
		require.Equal(t, []float64{8}, float64s(t, count))
	}
	var mismatch *checkpoint.MismatchError
	var released *tensor.ReleasedError
	require.ErrorAs(t, checkpoint.New().Add("x", checkpoint.Tensor(nil)).Write(context.Background(), new(bytes.Buffer)), &mismatch)
	require.ErrorAs(t, checkpoint.New().Add("x", checkpoint.Tensor(gone)).Write(context.Background(), new(bytes.Buffer)), &released)
	for i := range file { // a damaged byte
		bad := bytes.Clone(file)
		bad[i] ^= 1
		step := 5
		err := checkpoint.New().Add("step", checkpoint.Value(&step)).Add("x", checkpoint.Tensors(map[string]*tensor.Tensor{"x": own, "y": count})).
			Read(context.Background(), bytes.NewReader(bad))
		require.Error(t, err, i)
		require.Equal(t, []float64{8, 8}, float64s(t, own), i)
	}
}

// A later section that fails, and each call of a device that does: the tensors are as they were.
func TestTensors_ArePutBackWhereAChangeFails(t *testing.T) {
	e, _ := hostExec(t)
	x := made(t, e, []float32{1, 2})
	file := bytesOf(t, checkpoint.New().Add("x", checkpoint.Tensor(x)).Add("last", checkpoint.State(broken{})))
	into := made(t, e, []float32{8, 9})
	boom := errors.New("boom")
	err := checkpoint.New().Add("x", checkpoint.Tensor(into)).Add("last", checkpoint.State(broken{load: boom})).Read(context.Background(), bytes.NewReader(file))
	require.ErrorIs(t, err, boom)
	require.Equal(t, []float64{8, 9}, float64s(t, into))

	dev := sim.New(1 << 30)
	on, err := tensor.On(dev)
	require.NoError(t, err)
	there, err := tensor.Zeros(on, tensor.Float32, 2)
	require.NoError(t, err)
	file = bytesOf(t, checkpoint.New().Add("x", checkpoint.Tensor(x)))
	held := memory.Allocated(dev)
	for nth, more, failed := 1, true, 0; more; nth++ {
		calls := 0
		dev.Inject(func(sim.Call) error {
			if calls++; calls == nth {
				return boom
			}
			return nil
		})
		if err := checkpoint.New().Add("x", checkpoint.Tensor(there)).Read(context.Background(), bytes.NewReader(file)); err != nil {
			require.ErrorIs(t, err, boom)
			var partial *checkpoint.PartialError
			require.False(t, errors.As(err, &partial), "the old values are put back")
			failed++
		}
		dev.Inject(nil)
		require.Equal(t, held, memory.Allocated(dev))
		if more = calls >= nth; !more {
			require.Positive(t, failed)
		}
	}
	there.Release()
}
