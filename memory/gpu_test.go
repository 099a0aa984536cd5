package memory_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/memory/memtest"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// onGPU runs a suite on a real GPU, besides the devices on which it always runs.
func onGPU(t *testing.T) memtest.Option {
	d := cudatest.GPU(t)
	return memtest.OnReal("gpu", func(testing.TB) device.Device { return d })
}

func TestGPU_CachingConformance(t *testing.T) {
	gpu := onGPU(t)
	for name, conf := range map[string]string{"default": "", "expandable": "expandable_segments:True", "reclaim": reclaiming,
		"reclaim pages": reclaiming + ",expandable_segments:True"} {
		t.Run(name, func(t *testing.T) {
			memtest.TestAllocator(t, caching(conf), memtest.Caches(), memtest.Checked(check), gpu)
		})
	}
}

func TestGPU_AsyncConformance(t *testing.T) {
	memtest.TestAllocator(t, async, onGPU(t))
}

func TestGPU_CapturedProgramsReadWhatTheyWrote(t *testing.T) {
	d := cudatest.GPU(t)
	for seed := range uint64(20) {
		for _, conf := range []string{"", reuseConf, reuseConf + ",expandable_segments:True"} {
			t.Run(fmt.Sprint(seed, conf), func(t *testing.T) {
				r := captureRigOn(t, nil, d, conf)
				out := r.take(150*32, r.main)
				g, want, _ := reuseProgram(r, rand.New(rand.NewPCG(seed, 7)), out)
				for range 10 {
					r.requireReplay(g, out, want)
				}
				require.NoError(t, r.a.Free(out))
			})
		}
	}
}

func TestGPU_AsyncInCaptures(t *testing.T) {
	checkBlocksOfACapture(t, cudatest.GPU(t))
	checkBlocksOutliveTheirCapture(t, cudatest.GPU(t))
}
