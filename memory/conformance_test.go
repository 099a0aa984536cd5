package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memtest"
)

// caching makes an allocator with settings in text form.
func caching(conf string) memtest.Opener {
	return func(t testing.TB, dev device.Device) memory.Allocator {
		c, err := memory.ParseConfig(conf)
		require.NoError(t, err)
		a, err := memory.New(dev, c)
		require.NoError(t, err)
		return a
	}
}

// inFull is an option for full tests only.
func inFull(o memtest.Option) memtest.Option {
	if fulltests.Enabled() {
		return o
	}
	return nil
}

func check(a memory.Allocator) error { return a.(*memory.Caching).Check() }

func TestCaching_Conformance(t *testing.T) {
	for i, c := range []struct {
		name, conf string
		on         memtest.Option
	}{
		{"default", "", onCUDA()},
		{"max_split", "max_split_size_mb:32", nil},
		{"expandable", "expandable_segments:True", inFull(onCUDA())},
		{"gc", "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9999", nil},
		{"roundup", "roundup_power2_divisions:4", nil},
		{"release_lock", "release_lock_on_cudamalloc:True", nil},
		{"reclaim", reclaiming, inFull(onCUDA())},
		{"reclaim_pages", reclaiming + ",expandable_segments:True", inFull(onCUDA())},
		{"small_segments", "large_segment_size_mb:12,max_split_size_mb:16,max_non_split_rounding_mb:12", nil},
		{"expandable_more", "expandable_segments:True,large_segment_size_mb:11,roundup_power2_divisions:2", nil},
	} {
		if testing.Short() && i >= 3 {
			break
		}
		t.Run(c.name, func(t *testing.T) {
			memtest.TestAllocator(t, caching(c.conf), memtest.Caches(), memtest.Checked(check), c.on)
		})
	}
}

func TestDirect_Conformance(t *testing.T) {
	memtest.TestAllocator(t, func(_ testing.TB, dev device.Device) memory.Allocator { return memory.NewDirect(dev) }, nil)
}
