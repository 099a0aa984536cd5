package tensor_test

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/memory"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// onGPU is a bench on a real GPU, with a caching allocator of its own.
func onGPU(t *testing.T) bench {
	dev := cudatest.GPU(t)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	return newBench(t, dev, alloc)
}

func TestGPU_ProgramsGiveWhatPyTorchGives(t *testing.T) { checkPrograms(t, onGPU(t)) }

func TestGPU_NormProgramsGiveWhatPyTorchGives(t *testing.T) {
	checkProgramFile(t, onGPU(t), "norm.json")
}

// TestGPU_NetworkGivesWhatTheHostGives also shows that both devices draw the same random numbers.
func TestGPU_NetworkGivesWhatTheHostGives(t *testing.T) {
	want, err := network(onHost(t).Exec)
	require.NoError(t, err)
	got, err := network(onGPU(t).Exec)
	require.NoError(t, err)
	requireClose(t, want, got, 1e-4)
}

// TestGPU_EveryOperationGivesWhatTheHostGives compares results, not bits: sums are formed in another order.
func TestGPU_EveryOperationGivesWhatTheHostGives(t *testing.T) {
	here, there := onHost(t), onGPU(t)
	for _, s := range samples {
		t.Run(s.String(), func(t *testing.T) {
			want, err := s.run(s.inputs(t, here.Exec))
			require.NoError(t, err)
			defer want.Release()
			got, err := s.run(s.inputs(t, there.Exec))
			require.NoError(t, err)
			defer got.Release()
			require.Equal(t, want.DType(), got.DType())
			requireClose(t, values(t, want), values(t, got), tolerance[want.DType()])
		})
	}
}

// TestGPU_EveryOperationGivesTheSameBitsEveryTime is what package kernels/cuda promises of one GPU, whatever its tensor cores and cuBLAS round.
func TestGPU_EveryOperationGivesTheSameBitsEveryTime(t *testing.T) {
	there := onGPU(t)
	once := func(t *testing.T, s sample) (bits []uint64) {
		got, err := s.run(s.inputs(t, there.Exec))
		require.NoError(t, err)
		defer got.Release()
		for _, v := range values(t, got) {
			bits = append(bits, math.Float64bits(v))
		}
		return bits
	}
	for _, s := range samples {
		t.Run(s.String(), func(t *testing.T) {
			require.Equal(t, once(t, s), once(t, s))
		})
	}
}

func TestGPU_EveryOperationReadsNoStrideThatLeadsNowhere(t *testing.T) {
	b := onGPU(t)
	for _, s := range slices.Concat(samples, strideSamples) {
		for _, v := range slices.Concat([]sample{s}, s.shrunk(1), s.shrunk(0)) {
			v.compareStrides(t, b)
		}
	}
}
