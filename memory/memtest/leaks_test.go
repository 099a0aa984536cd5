package memtest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memtest"
)

// recorder is a test that notes what is reported to it.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// end runs the cleanups, the last one first.
func (r *recorder) end() []string {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return r.errors
}

func allocators(t *testing.T, dev device.Device) map[string]memory.Allocator {
	caching, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	all := map[string]memory.Allocator{"caching": caching, "direct": memory.NewDirect(dev)}
	t.Cleanup(func() {
		for _, a := range all {
			_ = a.Close() // some tests leak on purpose
		}
	})
	return all
}

func TestNoLeaks_SaysHowMuchIsHeld(t *testing.T) {
	dev := sim.New(1 << 30)
	for name, a := range allocators(t, dev) {
		t.Run(name, func(t *testing.T) {
			_, err := a.Alloc(1<<20, dev.DefaultStream()) // from before: not the test's
			require.NoError(t, err)
			r := &recorder{}
			memtest.NoLeaks(r, a)
			for range 2 {
				_, err = a.Alloc(3<<19, dev.DefaultStream())
				require.NoError(t, err)
			}
			require.Equal(t, []string{fmt.Sprintf(
				"memtest: 2 blocks of %s, 3MiB (3145728 bytes), are still held since the call of NoLeaks", dev.ID())}, r.end())
		})
	}
}

func TestNoLeaks_IsContentWithWhatIsFreed(t *testing.T) {
	dev := sim.New(1 << 30)
	for name, a := range allocators(t, dev) {
		t.Run(name, func(t *testing.T) {
			before, err := a.Alloc(1<<20, dev.DefaultStream())
			require.NoError(t, err)
			r := &recorder{}
			memtest.NoLeaks(r, a)
			b, err := a.Alloc(1<<20, dev.DefaultStream())
			require.NoError(t, err)
			c, err := a.Alloc(1<<20, dev.DefaultStream())
			require.NoError(t, err)
			require.NoError(t, a.Free(b))
			a.FreeLater(c) // queued until somebody looks
			require.NoError(t, a.Free(before))
			require.Empty(t, r.end())
		})
	}
}

// A block of before that is freed does not make up for a larger one that is held.
func TestNoLeaks_FindsALargerBlockInPlaceOfASmaller(t *testing.T) {
	dev := sim.New(1 << 30)
	a := allocators(t, dev)["caching"]
	before, err := a.Alloc(512, dev.DefaultStream())
	require.NoError(t, err)
	r := &recorder{}
	memtest.NoLeaks(r, a)
	_, err = a.Alloc(1<<20, dev.DefaultStream())
	require.NoError(t, err)
	require.NoError(t, a.Free(before))
	require.Len(t, r.end(), 1)
}
