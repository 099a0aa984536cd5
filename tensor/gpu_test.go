package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/memory"
)

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
