package autograd_test

import (
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
	g.Ones(tensor.Float32, 1).Combinations(100_000_000, true)
	require.ErrorContains(t, g.Err(), "there are too many choices of 100000000 of 1 elements")
}
