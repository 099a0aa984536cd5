package registry

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

type allocator struct{ id device.ID }

func (a *allocator) Device() device.ID { return a.id }

func TestOf_KeepsOneForEachDevice(t *testing.T) {
	var r Of[*allocator]
	one, two := sim.New(1), sim.New(1)
	_, ok := r.Lookup(one)
	require.False(t, ok)
	failed := errors.New("failed")
	_, err := r.Get(two, func() (*allocator, error) { return nil, failed })
	require.ErrorIs(t, err, failed)
	made := 0
	get := func(d *sim.Device) *allocator {
		a, err := r.Get(d, func() (*allocator, error) { made++; return &allocator{d.ID()}, nil })
		require.NoError(t, err)
		return a
	}
	b, a := get(two), get(one)
	require.Same(t, a, get(one))
	require.Equal(t, 2, made)
	require.Equal(t, []*allocator{a, b}, r.All(), "by the devices' numbers")
	gone, ok := r.Remove(one)
	require.True(t, ok)
	require.Same(t, a, gone)
	_, ok = r.Remove(one)
	require.False(t, ok)
	require.Equal(t, []*allocator{b}, r.All())
}
