package autograd_test

import (
	"os"
	"testing"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

func TestGPU_ValuesAndGradientsAreThoseOfPyTorch(t *testing.T) {
	checkGolden(t, func(t *testing.T) *rig { return newRig(t, cudatest.GPU(t)) })
}

func TestGPU_ConvolutionsAreThoseOfPyTorch(t *testing.T) {
	checkConvolutions(t, func(t *testing.T) *rig { return newRig(t, cudatest.GPU(t)) })
}

func TestGPU_NormValuesAndGradientsAreThoseOfPyTorch(t *testing.T) {
	checkGoldenFile(t, func(t *testing.T) *rig { return newRig(t, cudatest.GPU(t)) }, "norm.json")
}

func TestGPU_BasicsAreThoseOfPyTorch(t *testing.T) {
	checkBasics(t, func(t *testing.T) *rig { return newRig(t, cudatest.GPU(t)) })
}

func TestGPU_GradientsOfExtremeNumbersAreThoseOfFloat64(t *testing.T) {
	checkExtremes(t, func(t *testing.T) *rig { return newRig(t, cudatest.GPU(t)) })
}
