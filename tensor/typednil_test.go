package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// What a constructor returns beside its error is a nil pointer, which is no nil interface.
func TestOn_RefusesNilPointersAndZeroStreams(t *testing.T) {
	dev := host.New()
	for name, o := range map[string]tensor.ExecOption{
		"*cuda.Stream":       tensor.WithStream((*cuda.Stream)(nil)),
		"zero *cuda.Stream":  tensor.WithStream(new(cuda.Stream)),
		"*memory.Caching":    tensor.WithAllocator((*memory.Caching)(nil)),
		"*memory.Direct":     tensor.WithAllocator((*memory.Direct)(nil)),
		"zero *memory.Async": tensor.WithAllocator(new(memory.Async)),
	} {
		_, err := tensor.On(dev, o)
		var refused *tensor.DeviceError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, "On", refused.Op)
	}
	_, err := tensor.On(dev, tensor.WithStream((*cuda.Stream)(nil)))
	require.EqualError(t, err, "tensor: On: the stream is a nil *cuda.Stream")
	require.NoError(t, memory.Drop(dev))
	require.NoError(t, dev.Close())
}

func TestAllocators_RefuseStreamsThatAreNilPointers(t *testing.T) {
	dev := sim.New(1 << 30)
	caching, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	direct := memory.NewDirect(dev)
	pool := caching.NewPool()
	var s device.Stream = (*cuda.Stream)(nil)
	held, err := caching.Alloc(512, dev.DefaultStream())
	require.NoError(t, err)
	for name, call := range map[string]func(s device.Stream) error{
		"Caching.Alloc":        func(s device.Stream) error { _, err := caching.Alloc(1, s); return err },
		"Caching.RecordStream": func(s device.Stream) error { return caching.RecordStream(held, s) },
		"Caching.CaptureGraph": func(s device.Stream) error {
			_, err := caching.CaptureGraph(s, func() error { return nil })
			return err
		},
		"Direct.Alloc": func(s device.Stream) error { _, err := direct.Alloc(1, s); return err },
		"Pool.Alloc":   func(s device.Stream) error { _, err := pool.Alloc(1, s); return err },
	} {
		var refused *memory.ArgumentError
		require.ErrorAs(t, call(s), &refused, name)
		require.ErrorContains(t, call(s), "a nil *cuda.Stream", name)
		require.ErrorAs(t, call(nil), &refused, name)
	}
	sourced := caching.NewPool(memory.PoolSource((*source)(nil)))
	_, err = sourced.Alloc(1, dev.DefaultStream())
	var refused *memory.ArgumentError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "the source is a nil *tensor_test.source")
	require.NoError(t, caching.Free(held))
	require.NoError(t, pool.Close())
	require.NoError(t, sourced.Close())
	require.NoError(t, caching.Close())
	require.NoError(t, direct.Close())
	require.NoError(t, dev.Close())
}

// source reads a field, as methods of pointers do.
type source struct{ at device.Ptr }

func (s *source) Malloc(uint64) (device.Ptr, error) { return s.at, nil }
func (s *source) Free(device.Ptr) error             { return nil }
