package nn_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/memory"
)

// statistics are the running statistics of a batch norm.
func statistics(t *testing.T, l *nn.BatchNormLayer) (all []float64) {
	for _, p := range l.Buffers() {
		all = append(all, valuesOf(t, p)...)
	}
	return all
}

func TestBatchNorm_ThatIsRefusedCountsNoBatch(t *testing.T) {
	r := onHost(t)
	for name, l := range map[string]*nn.BatchNormLayer{
		"average": nn.BatchNorm1d(3), "cumulative": nn.BatchNorm1d(3, nn.Momentum(nn.CumulativeAverage)),
	} {
		r.place(l)
		before := statistics(t, l)
		g := r.graph()
		l.Forward(g.Input(r.tensor([]float32{1, 2, 3}, 1, 3)))
		require.Error(t, g.Err(), name)
		g.Release()
		require.Equal(t, before, statistics(t, l), name)
	}
}

func TestBatchNorm_ThatRunsOutOfMemoryCountsNoBatch(t *testing.T) {
	for name, momentum := range map[string]float64{"average": 0.1, "cumulative": nn.CumulativeAverage} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			l, want := nn.BatchNorm1d(2, nn.Momentum(momentum)), nn.BatchNorm1d(2, nn.Momentum(momentum))
			r.place(l)
			r.place(want)
			x := r.tensor([]float32{1, 2, 3, 5, 8, 13}, 3, 2)
			r.forward(want, x)
			fresh, after := statistics(t, l), statistics(t, want)
			alloc := &flaky{Allocator: r.alloc}
			for n := 1; ; n++ {
				alloc.left = n
				g := r.graph(autograd.WithAllocator(alloc))
				l.Forward(g.Input(x))
				err := g.Err()
				g.Release()
				if err == nil {
					require.Greater(t, n, 3, "moments and a result")
					break
				}
				require.True(t, errors.Is(err, memory.ErrOutOfMemory), "%v", err)
				require.Equal(t, fresh, statistics(t, l), "allocation %d failed", n)
			}
			require.Equal(t, after, statistics(t, l))
		})
	}
}
