package cuda

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// UseLibrary makes a driver library the one of the process until the end of the test, for Open and device.Shutdown.
func UseLibrary(t testing.TB, path string) {
	t.Helper()
	before, systemBefore := theSystem, begun.Load()
	t.Cleanup(func() {
		theSystem = before
		begun.Store(systemBefore)
	})
	library, err := driver.LoadFile(path)
	require.NoError(t, err)
	s, err := newSystem(library)
	require.NoError(t, err)
	theSystem = sync.OnceValues(func() (*system, error) { return s, nil })
	begun.Store(s)
}

// SetProfileLimits changes the limits of profiles that start from now on; 0 leaves one as it is.
func (d *Device) SetProfileLimits(spans, timings int, base time.Duration) {
	l := &d.system.profiles.limits
	if spans > 0 {
		l.spans = spans
	}
	if timings > 0 {
		l.timings = timings
	}
	if base > 0 {
		l.base = base
	}
}
