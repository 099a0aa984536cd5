package cuda_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/devicetest"
)

// TestGPU_Conformance is what all devices must do, on a real one. Other processes may use its memory.
func TestGPU_Conformance(t *testing.T) {
	d := cudatest.GPU(t)
	devicetest.TestDevice(t, func(*testing.T) device.Device { return d }, devicetest.Shared(), devicetest.Inexact())
}

func TestGPU_SaysWhatItIs(t *testing.T) {
	d := cudatest.GPU(t)
	p := d.Properties()
	major, minor := cuda.DriverVersion()
	t.Logf("%s, compute capability %d.%d, %d processors, %d bytes, CUDA %d.%d", p.Name, p.Major, p.Minor, p.Processors, p.TotalMemory,
		major, minor)
	require.NotEmpty(t, p.Name)
	require.Positive(t, p.Processors)
	require.GreaterOrEqual(t, p.Major, 5)
	info, err := d.MemInfo()
	require.NoError(t, err)
	require.LessOrEqual(t, info.Free, info.Total)
}

// TestGPU_ProfileAgreesWithTheClock compares the driver's times of copies with the host's of all of them.
func TestGPU_ProfileAgreesWithTheClock(t *testing.T) {
	const bytes, n = 64 << 20, 20
	d := cudatest.GPU(t)
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	m, err := d.Malloc(2 * bytes)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Free(m)) }()
	require.NoError(t, s.Fill(m, 1, 2*bytes))
	require.NoError(t, s.Synchronize(background))
	p := start(t, d)
	begin := time.Now()
	for range n {
		require.NoError(t, s.Copy(m, m.Add(bytes), bytes))
	}
	require.NoError(t, s.Synchronize(background))
	took := time.Since(begin)
	p.Stop()
	t.Log("\n" + totalsOf(t, p))
	require.Equal(t, map[cuda.Operation]int{copied("Copy", bytes): n}, counts(t, p))
	total := p.Totals()[0]
	require.Greater(t, total.Min, time.Duration(0))
	require.Less(t, total.Time, took, "no copy is counted twice")
	require.Greater(t, total.Time, took/4, "the copies are what the time went to")
	for at, events := range traceOf(t, p) {
		require.Len(t, events, n, at)
	}
	require.NotContains(t, totalsOf(t, p), "failed")
}
