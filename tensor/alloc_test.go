package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/tensor"
)

// heapAllocs is the number of Go heap allocations of one operation whose result is released at once.
func heapAllocs(t *testing.T, f func() (*tensor.Tensor, error)) float64 {
	t.Helper()
	return testing.AllocsPerRun(200, func() {
		x, err := f()
		if err != nil {
			t.Error(err)
			return
		}
		x.Release()
	})
}

func TestOperations_AllocateOnlyTheHandleOfTheResult(t *testing.T) {
	if invariants.Enabled || raceEnabled {
		t.Skip("the checks of these builds allocate")
	}
	b := onHost(t)
	e := b.Exec.Owned()
	x, y := iota(t, e, 4, 8), iota(t, e, 4, 8)
	row := iota(t, e, 8)
	for name, f := range map[string]func() (*tensor.Tensor, error){
		"Add":           func() (*tensor.Tensor, error) { return x.Add(y) },
		"Add broadcast": func() (*tensor.Tensor, error) { return x.Add(row) },
		"MulScalar":     func() (*tensor.Tensor, error) { return x.MulScalar(2) },
		"ReLU":          x.ReLU,
		"ReLUGrad":      func() (*tensor.Tensor, error) { return gradients.ReLU(x, y) },
		"Softmax":       func() (*tensor.Tensor, error) { return x.Softmax(1) },
		"Transpose":     func() (*tensor.Tensor, error) { return x.Transpose(0, 1) },
		"View":          func() (*tensor.Tensor, error) { return x.View(8, 4) },
		"Zeros":         func() (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, 4, 8) },
		"Clone":         x.Clone,
	} {
		require.LessOrEqual(t, heapAllocs(t, f), 1.0, name)
	}
}

func BenchmarkAdd(b *testing.B) {
	bench := onHost(b)
	for _, c := range []struct {
		name string
		e    tensor.Exec
	}{{"owned", bench.Exec.Owned()}, {"guarded", bench.Exec}} {
		b.Run(c.name, func(b *testing.B) {
			x := must(b)(tensor.Ones(c.e, tensor.Float32, 8))
			b.ReportAllocs()
			for b.Loop() {
				y, err := x.Add(x)
				if err != nil {
					b.Fatal(err)
				}
				y.Release()
			}
		})
	}
}
