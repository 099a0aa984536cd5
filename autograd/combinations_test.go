package autograd_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// What is too much for Go's memory is an error, and what is nothing takes none.
func TestCombinations_OfManyPlacesAreRefusedOrNone(t *testing.T) {
	r := onHost(t)
	g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
	defer g.Release()
	none := g.Ones(tensor.Float32, 0).Combinations(1<<40, true)
	require.NoError(t, g.Err())
	require.Equal(t, 0, none.Len())
	for _, n := range []int{100_000_000, math.MaxInt} {
		g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
		defer g.Release()
		g.Ones(tensor.Float32, 2).Combinations(n, true)
		require.ErrorContains(t, g.Err(), fmt.Sprintf("there are too many choices of %d of 2 elements", n))
	}
}

func TestCombinations_MakeTheirIndicesOnce(t *testing.T) {
	r := onHost(t)
	g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
	defer g.Release()
	v := g.Ones(tensor.Float32, 4)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := v.Combinations(40, true).Len()
	runtime.ReadMemStats(&after)
	require.Equal(t, 12341*40, n)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8*n*5/4))
}
