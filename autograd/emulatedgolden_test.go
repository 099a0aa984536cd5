package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestGPU_ComposedOperationsGiveWhatPyTorchGives(t *testing.T) {
	checkComposed(t, func(t *testing.T) *rig { return newRig(t, cudatest.GPU(t)) })
}

func TestEmulatedGPU_ComposedOperationsGiveWhatPyTorchGives(t *testing.T) {
	checkComposed(t, onEmulated(t))
}

func TestEmulatedGPU_ValuesAndGradientsAreThoseOfPyTorch(t *testing.T) {
	r := onEmulated(t)
	checkGolden(t, r)
	checkGoldenFile(t, r, "norm.json")
	checkBasics(t, r)
}

// onEmulated is the same emulated GPU for all of a test's cases, each of which must give back what it takes.
func onEmulated(t *testing.T) func(t *testing.T) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("the emulated GPU is slow")
	}
	dev, _ := emulatedtest.New(t)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	return func(t *testing.T) *rig {
		t.Helper()
		r := &rig{t: t, dev: dev, alloc: alloc, exec: e}
		t.Cleanup(func() {
			if !t.Failed() {
				require.Zero(t, r.allocated(), "bytes still allocated at the end of the case")
			}
		})
		return r
	}
}
