package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

func TestErrors_NameTheCallThatFailed(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	r.Fail("cuMemAlloc_v2", 2, 999)
	p := r.Malloc(d, 100)
	_, err := d.Malloc(1234)
	require.EqualError(t, err, "cuda:0: cuMemAlloc_v2: CUDA_ERROR_UNKNOWN (999) (1234 bytes wanted)")
	require.ErrorIs(t, err, device.ErrUnavailable)
	var result cuda.Result
	require.ErrorAs(t, err, &result)
	require.EqualValues(t, 999, result)
	_, err = d.Malloc(1 << 40)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	require.ErrorContains(t, err, "CUDA_ERROR_OUT_OF_MEMORY (2)")
	require.NoError(t, d.Free(p))
}

func TestAsynchronousErrors_NameTheOperationAtTheNextWait(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, p := r.Stream(d), r.Malloc(d, 64)
	require.NoError(t, s.Copy(p, p.Add(32), 32))
	require.NoError(t, s.Synchronize(background)) // the copy is beyond suspicion
	r.Fail("work", 1, 700)
	require.NoError(t, s.Fill(p, 1, 64), "enqueuing it is fine")
	err := s.Synchronize(background)
	require.ErrorIs(t, err, device.ErrLaunch)
	require.EqualError(t, err, "cuda:0: Fill: operation failed on the device: CUDA_ERROR_ILLEGAL_ADDRESS (700) (stream 1; told by cuStreamSynchronize)")
}

func TestAsynchronousErrors_NameAllThatCanHaveFailed(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, e, p := r.Stream(d), r.Event(d), r.Malloc(d, 64)
	r.HoldStream(s.Handle())
	r.Fail("work", 2, 719)
	require.NoError(t, s.Fill(p, 1, 64))
	require.NoError(t, s.Copy(p, p.Add(32), 32))
	s.Note("cublasGemmEx")
	require.NoError(t, s.Record(e))
	r.ReleaseStream(s.Handle())
	err := e.Synchronize(background)
	require.ErrorIs(t, err, device.ErrLaunch)
	require.ErrorContains(t, err, "one of Fill, Copy, cublasGemmEx: operation failed on the device: CUDA_ERROR_LAUNCH_FAILED (719)")
	require.ErrorContains(t, err, "CUDA_LAUNCH_BLOCKING=1")
}

func TestAsynchronousErrors_CountWhatIsTooMuchToName(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, p := r.Stream(d), r.Malloc(d, 64)
	r.HoldStream(s.Handle())
	r.Fail("work", 1, 700)
	require.NoError(t, s.Copy(p, p.Add(32), 32))
	for range 20 {
		require.NoError(t, s.Fill(p, 1, 64))
	}
	r.ReleaseStream(s.Handle())
	require.ErrorContains(t, s.Synchronize(background), "one of 5 earlier ones, Fill: ")
}

func TestStickyErrors_EndTheDevice(t *testing.T) {
	r := cudatest.New(t, 2)
	d := r.Devices[0]
	s, e, p := r.Stream(d), r.Event(d), r.Malloc(d, 64)
	require.NoError(t, d.Err())
	r.Fail("work", 1, 700)
	require.NoError(t, s.Fill(p, 1, 64))
	first := s.Synchronize(background)
	require.ErrorIs(t, first, device.ErrLaunch)
	require.Equal(t, first, d.Err())
	before := r.Total()
	_, mallocErr := d.Malloc(1)
	_, doneErr := e.Done()
	for _, err := range []error{mallocErr, doneErr, s.Fill(p, 1, 1), s.Record(e), s.CopyToDevice(p, []byte{1}), d.Free(p), d.Synchronize(background)} {
		require.ErrorIs(t, err, device.ErrUnavailable)
		require.ErrorIs(t, err, device.ErrLaunch, "the reason is in it")
		require.ErrorContains(t, err, "the device is unusable since an earlier error: cuda:0: Fill: ")
	}
	require.Equal(t, before, r.Total(), "the driver is not asked any more")
	require.NoError(t, r.Devices[1].Free(r.Malloc(r.Devices[1], 1)), "other devices go on")
}
