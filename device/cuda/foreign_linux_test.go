package cuda_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

func TestCallForeign_ReturnsTheStatusOfTheFunction(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	require.NoError(t, err)
	abs, err := purego.Dlsym(libc, "abs")
	require.NoError(t, err)
	minus := ^uintptr(41) // -42
	status, err := d.CallForeign(abs, minus)
	require.NoError(t, err)
	require.EqualValues(t, 42, status)
	status, err = d.CallForeign(abs, 0)
	require.NoError(t, err)
	require.Zero(t, status)
	r.Fail("cuCtxSetCurrent", 1, 999)
	_, err = d.CallForeign(abs, 1)
	require.ErrorIs(t, err, device.ErrUnavailable)
	require.ErrorContains(t, err, "cuCtxSetCurrent")
}

// What a library says to have failed is told once, by whatever wait comes first, and does not keep a stream from ending.
func TestStreamFail_IsToldByTheNextWait(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, e := r.Stream(d), r.Event(d)
	p := r.Malloc(d, 8)
	require.NoError(t, s.Fill(p, 1, 8))
	require.NoError(t, s.Record(e))
	cause := errors.New("given up")
	for name, wait := range map[string]func() error{
		"Stream.Synchronize": func() error { return s.Synchronize(context.Background()) },
		"with a context":     func() error { return s.Synchronize(t.Context()) },
		"Event.Synchronize":  func() error { return e.Synchronize(t.Context()) },
		"CopyToHost":         func() error { return s.CopyToHost(make([]byte, 8), p) },
		"Device.Synchronize": func() error { return d.Synchronize(t.Context()) },
	} {
		s.Fail("AllReduce", cause)
		done, err := s.Done()
		require.NoError(t, err, "a question is no wait")
		_ = done
		err = wait()
		require.ErrorIs(t, err, cause, name)
		require.ErrorIs(t, err, device.ErrLaunch, name)
		require.ErrorContains(t, err, "AllReduce", name)
		require.NoError(t, wait(), name)
	}
	last, err := d.NewStream()
	require.NoError(t, err)
	last.(*cuda.Stream).Fail("AllReduce", cause)
	require.ErrorIs(t, last.Close(), cause)
	require.True(t, last.(*cuda.Stream).Closed())
	require.NoError(t, d.Free(p))
}
