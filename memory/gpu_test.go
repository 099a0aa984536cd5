package memory_test

import (
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/memory/memtest"
)

// onGPU runs a suite on a real GPU, besides the devices on which it always runs.
func onGPU(t *testing.T) memtest.Option {
	d := cudatest.GPU(t)
	return memtest.On("gpu", func(testing.TB) device.Device { return d })
}

func TestGPU_CachingConformance(t *testing.T) {
	gpu := onGPU(t)
	for name, conf := range map[string]string{"default": "", "expandable": "expandable_segments:True"} {
		t.Run(name, func(t *testing.T) {
			memtest.TestAllocator(t, caching(conf), memtest.Caches(), memtest.Checked(check), gpu)
		})
	}
}

func TestGPU_AsyncConformance(t *testing.T) {
	memtest.TestAllocator(t, async, onGPU(t))
}
