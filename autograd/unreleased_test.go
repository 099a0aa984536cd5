package autograd_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// A program that forgets to release its graphs runs out of memory as one does that is too large: the error tells them apart.
func TestOutOfMemory_TellsOfGraphsThatAreNotReleased(t *testing.T) {
	r := onSim(t)
	var graphs []*autograd.Graph
	defer func() {
		for _, g := range graphs {
			g.Release()
		}
	}()
	for range 100 {
		g := r.graph()
		graphs = append(graphs, g)
		if g.Ones(tensor.Float32, 16<<20).Exp(); g.Err() != nil { // 128 MiB of 1 GiB
			break
		}
	}
	var e *autograd.OpError
	err := graphs[len(graphs)-1].Err()
	require.True(t, errors.As(err, &e) && errors.Is(err, memory.ErrOutOfMemory), err)
	require.GreaterOrEqual(t, e.Unreleased, int64(8))
	require.ErrorContains(t, err, "graphs of this process are not released: Graph.Release gives their memory back)")
	for _, g := range graphs {
		g.Release()
	}
	graphs = nil

	g := r.graph()
	defer g.Release()
	g.Ones(tensor.Float32, 1<<30).Exp()
	require.True(t, errors.As(g.Err(), &e))
	require.Less(t, e.Unreleased, int64(8), "released graphs do not count")
	g = r.graph()
	defer g.Release()
	g.Ones(tensor.Float32, 2).MM(g.Ones(tensor.Float32, 2))
	require.True(t, errors.As(g.Err(), &e))
	require.Zero(t, e.Unreleased)
}
