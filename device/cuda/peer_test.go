package cuda_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// TestCopyPeer_PassesAValueAroundAllDevices orders the devices by events only.
func TestCopyPeer_PassesAValueAroundAllDevices(t *testing.T) {
	for _, devices := range []int{2, 4} {
		for _, access := range []string{"0", "1"} {
			t.Run(fmt.Sprintf("%d devices, access %s", devices, access), func(t *testing.T) {
				passAround(t, cudatest.New(t, devices, func(l *fakecuda.Library) { l.Set("peer", access) }))
			})
		}
	}
}

func passAround(t *testing.T, r *cudatest.Rig) {
	const n = 100_000
	d := r.Devices[0]
	want, got := cudatest.Pattern(len(r.Devices), n), make([]byte, n)
	s, p := r.Stream(d), r.Malloc(d, n)
	start := p
	require.NoError(t, s.CopyToDevice(p, want))
	for i := 1; i <= len(r.Devices); i++ {
		next := r.Devices[i%len(r.Devices)]
		to, q, e := r.Stream(next), r.Malloc(next, n), r.Event(d)
		require.NoError(t, s.Record(e))
		require.NoError(t, to.Wait(e), "an event of another device")
		require.NoError(t, next.CopyPeer(to, q, d, p, n))
		s, p, d = to, q, next
	}
	require.NotEqual(t, start, p)
	require.NoError(t, s.CopyToHost(got, p))
	require.Equal(t, want, got)
}

func TestEnablePeerAccess_FollowsTheHardware(t *testing.T) {
	r := cudatest.New(t, 2, func(l *fakecuda.Library) { l.Set("peer", "0") })
	a, b := r.Devices[0], r.Devices[1]
	can, err := a.CanAccessPeer(b)
	require.NoError(t, err)
	require.False(t, can)
	require.ErrorIs(t, a.EnablePeerAccess(b), device.ErrUnavailable)
	require.ErrorIs(t, a.EnablePeerAccess(host.Default()), device.ErrInvalidValue)
}

func TestEnablePeerAccess_OpensPagesOfBeforeAndAfter(t *testing.T) {
	r := cudatest.New(t, 2)
	a, b := r.Devices[0], r.Devices[1]
	g := b.Granularity()
	v, err := b.Reserve(4 * g)
	require.NoError(t, err)
	require.NoError(t, b.Map(v, 2*g, g))
	can, err := a.CanAccessPeer(b)
	require.NoError(t, err)
	require.True(t, can)
	before := r.Calls()["cuMemSetAccess"]
	require.NoError(t, a.EnablePeerAccess(b))
	require.Equal(t, before+2, r.Calls()["cuMemSetAccess"], "one for each page")
	require.NoError(t, a.EnablePeerAccess(b), "twice is harmless")
	require.NoError(t, b.Map(v.Add(2*g), g, g))
	require.Equal(t, before+4, r.Calls()["cuMemSetAccess"], "for b and for a")
	s, p := r.Stream(a), r.Malloc(a, g)
	require.NoError(t, b.DefaultStream().Fill(v, 7, 3*g))
	require.NoError(t, b.Synchronize(background))
	require.NoError(t, a.CopyPeer(s, p, b, v.Add(2*g), g))
	got := make([]byte, 8)
	require.NoError(t, s.CopyToHost(got, p))
	require.Equal(t, []byte{7, 7, 7, 7, 7, 7, 7, 7}, got)
}

// What a context's peers may use does not include its device's pools, which have lists of their own.
func TestEnablePeerAccess_OpensStreamOrderedMemory(t *testing.T) {
	r := cudatest.New(t, 2)
	a, b := r.Devices[0], r.Devices[1]
	r.Fail("cuMemPoolSetAccess", 1, 2)
	require.ErrorIs(t, a.EnablePeerAccess(b), device.ErrOutOfMemory)
	require.NoError(t, a.EnablePeerAccess(b))
	require.NoError(t, a.EnablePeerAccess(b))
	require.Equal(t, 2, r.Calls()["cuMemPoolSetAccess"], "one that failed, and one for good")
	require.Zero(t, r.Calls()["cuMemPoolSetAttribute"], "what the pool keeps is not changed")
}

func TestCopyPeer_RefusesStreamsOfOthers(t *testing.T) {
	r := cudatest.New(t, 3)
	a, b, c := r.Devices[0], r.Devices[1], r.Devices[2]
	p, q := r.Malloc(a, 64), r.Malloc(b, 64)
	require.ErrorIs(t, a.CopyPeer(r.Stream(c), p, b, q, 64), device.ErrInvalidValue)
	require.ErrorIs(t, a.CopyPeer(host.Default().DefaultStream(), p, b, q, 64), device.ErrInvalidValue)
	require.ErrorIs(t, a.CopyPeer(a.DefaultStream(), p, host.Default(), q, 64), device.ErrInvalidValue)
	require.ErrorIs(t, a.CopyPeer(a.DefaultStream(), 0, b, q, 64), device.ErrInvalidValue)
	require.NoError(t, a.CopyPeer(b.DefaultStream(), p, b, q, 0))
}
