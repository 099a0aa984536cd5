package cuda_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// A wait for the device that meets a capture would end it. So neither begins between the other's look and its call, and the
// wait is refused while the capture goes on.
func TestCapture_IsNotEndedByAWaitThatBeginsAtTheSameTime(t *testing.T) {
	r := cudatest.New(t, 1, func(l *fakecuda.Library) { l.Set("call_delay_us", "200") })
	d := r.Devices[0]
	s := r.Stream(d)
	p, err := d.Reserve(2 << 20)
	require.NoError(t, err)
	stop, waits := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			err := d.Synchronize(t.Context())
			if err == nil || errors.Is(err, device.ErrInvalidValue) {
				err = d.Unmap(p, 2<<20) // nothing is mapped there, but it looks only after the wait
			}
			select {
			case <-stop:
				waits <- err
				return
			default:
			}
		}
	}()
	for range 50 {
		require.NoError(t, s.BeginCapture())
		g, err := s.EndCapture()
		require.NoError(t, err)
		require.NoError(t, g.Close())
	}
	close(stop)
	require.ErrorIs(t, <-waits, device.ErrInvalidValue)
	require.NoError(t, d.Unreserve(p))
}

// The same for one stream: the allocator may wait for a stream that somebody begins to capture.
func TestCapture_IsNotEndedByALookAtItsStream(t *testing.T) {
	r := cudatest.New(t, 1, func(l *fakecuda.Library) { l.Set("call_delay_us", "200") })
	d := r.Devices[0]
	s, host := r.Stream(d), make([]byte, 16)
	p := r.Malloc(d, 16)
	stop, looks := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			_, err := s.Done()
			for _, look := range []func() error{func() error { return s.Synchronize(t.Context()) }, func() error { return s.CopyToHost(host, p) }} {
				if err == nil || errors.Is(err, device.ErrInvalidValue) {
					err = look()
				}
			}
			select {
			case <-stop:
				looks <- err
				return
			default:
			}
		}
	}()
	for range 50 {
		require.NoError(t, s.BeginCapture())
		g, err := s.EndCapture()
		require.NoError(t, err)
		require.NoError(t, g.Close())
	}
	close(stop)
	if err := <-looks; err != nil {
		require.ErrorIs(t, err, device.ErrInvalidValue)
	}
}

// What another goroutine allocates while a capture ends is part of the graph, and nobody's, or ordinary memory: the driver and the list of
// the graph's memory agree.
func TestCapture_EndsWhileAnotherGoroutineAllocates(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s := r.Stream(d)
	for range 100 {
		require.NoError(t, s.BeginCapture())
		memory := make(chan device.Ptr, 1)
		go func() {
			p, err := d.AllocAsync(4096, s)
			assert.NoError(t, err)
			memory <- p
		}()
		g, err := s.EndCapture()
		require.NoError(t, err)
		if err := d.FreeAsync(<-memory, s); err != nil {
			require.ErrorContains(t, err, "was not launched")
		}
		require.NoError(t, g.Close())
	}
}
