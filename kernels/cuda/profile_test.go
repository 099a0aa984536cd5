package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	driver "github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/tensor"
)

// A profile says what operation a kernel was launched for, and on what.
func TestProfile_NamesTheOperationOfAKernel(t *testing.T) {
	dev, _ := emulatedtest.NewPTX(t)
	e, err := tensor.On(dev)
	require.NoError(t, err)
	e = e.Owned()
	x, err := tensor.Ones(e, tensor.Float32, 4, 8)
	require.NoError(t, err)
	defer x.Release()
	y, err := tensor.Ones(e, tensor.Float32, 8, 16)
	require.NoError(t, err)
	defer y.Release()
	p, err := dev.StartProfile()
	require.NoError(t, err)
	z, err := x.MatMul(y)
	require.NoError(t, err)
	defer z.Release()
	sum, err := z.Sum([]int{1}, false)
	require.NoError(t, err)
	defer sum.Release()
	p.Stop()
	got := map[string]string{}
	for _, total := range p.Totals() {
		require.Equal(t, driver.KernelOperation, total.Kind)
		require.Equal(t, 1, total.Count)
		got[total.For] = total.Kernel
	}
	require.Len(t, got, 2)
	require.Contains(t, got["matmul(4x8, 8x16) = 4x16 float32"], "matmul")
	require.Contains(t, got["sum(4x16) = 4x1 float32"], "sum")
}
