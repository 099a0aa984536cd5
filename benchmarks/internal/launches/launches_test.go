package launches_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/launches"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// counted is what f puts on the streams of a device.
func counted(t *testing.T, f func(e tensor.Exec)) launches.Counts {
	d := launches.New(1 << 30)
	t.Cleanup(func() {
		require.NoError(t, memory.Drop(d))
		require.NoError(t, cuda.Unload(d))
		require.NoError(t, d.Close())
	})
	e, err := tensor.On(d)
	require.NoError(t, err)
	require.True(t, d.Begin())
	require.False(t, d.Begin(), "one at a time")
	defer func() { require.Empty(t, d.End(), "nothing is counted after End") }()
	f(e)
	return d.End()
}

func must(t *testing.T) func(x *tensor.Tensor, err error) *tensor.Tensor {
	return func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(x.Release)
		return x
	}
}

func TestCounts_AreWhatAGPUWouldBeGiven(t *testing.T) {
	ok := must(t)
	counts := counted(t, func(e tensor.Exec) {
		a := ok(tensor.FromSlice(e, make([]float32, 64*32), 64, 32)) // a copy
		b := ok(a.Add(a))
		row := ok(a.Narrow(0, 0, 1))
		ok(ok(row.Expand(64, 32)).Add(b)) // a row counts once
		half := ok(a.To(tensor.BFloat16))
		w := ok(half.Narrow(0, 0, 16))
		bias := ok(tensor.Zeros(e, tensor.BFloat16, 16))
		ok(tensor.Linear(half, w, bias))
		ok(half.MatMul(ok(w.T())))
		ok(tensor.LinearAct(half, w, bias, tensor.ActGELUTanh))
		ok(tensor.LinearAct(half, w, bias, tensor.ActReLU)) // of which the library has no epilogue: a pass of our own besides
		ok(a.IndexSelect(0, ok(tensor.FromSlice(e, []int64{1, 2}, 2))))
	})
	const matrix = 64 * 32 * 4
	product := int64(64*32+16*32+64*16) * 2
	require.Equal(t, launches.Count{Name: "add", Operations: 2, Bytes: 3*matrix + 2*matrix + 32*4}, counts.Of("add"))
	require.Equal(t, launches.Count{Name: "cast float32 to bfloat16", Operations: 1, Bytes: matrix + matrix/2}, counts.Of("cast float32 to bfloat16"))
	require.Equal(t, launches.Count{Name: "product, cuBLAS", Operations: 1, LibraryCalls: 1, Bytes: product}, counts.Of("product, cuBLAS"))
	require.Equal(t, launches.Count{Name: "product, cuBLASLt", Operations: 3, LibraryCalls: 3, Bytes: 3 * (product + 16*2)}, counts.Of("product, cuBLASLt"))
	require.Equal(t, 1, counts.Of("matmul_activation").Operations)
	require.Equal(t, launches.Count{Name: "index_select", Operations: 1, Bytes: 2*2*32*4 + 2*8}, counts.Of("index_select"))
	require.Equal(t, launches.Count{Name: "copy from the host", Operations: 2, Bytes: matrix + 16}, counts.Of("copy from the host"))
	total := counts.Total()
	require.Equal(t, 4, total.LibraryCalls)
	require.GreaterOrEqual(t, total.Operations, 11)
}

// A sum down columns is two kernels, and its operands are read once.
func TestCounts_HaveTheBytesOfACallOnce(t *testing.T) {
	ok := must(t)
	counts := counted(t, func(e tensor.Exec) {
		x := ok(tensor.Zeros(e, tensor.Float32, 4096, 64))
		ok(x.Sum([]int{0}, false))
	})
	require.Equal(t, launches.Count{Name: "sum", Operations: 2, Bytes: 4096*64*4 + 64*4}, counts.Of("sum"))
}
