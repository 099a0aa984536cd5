package driver

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGate_RefusesBatchesWhenItIsShut(t *testing.T) {
	g, l := NewGate(), new(Library)
	a, b := g.Batch(l), g.Batch(l)
	a.Release()
	g.Shut()
	require.Nil(t, g.Batch(l))
	select {
	case <-g.empty:
		require.Fail(t, "a batch is inside")
	default:
	}
	b.Release()
	g.Wait()
	require.Nil(t, g.Batch(l))
	l.Batch().Release() // one of the pool, which has forgotten the gate
	require.EqualValues(t, shut, g.inside.Load())
}

func TestGate_WaitsForTheLastBatch(t *testing.T) {
	for range 200 {
		g, l := NewGate(), new(Library)
		var inside atomic.Int64
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for b := g.Batch(l); b != nil; b = g.Batch(l) {
					inside.Add(1)
					if nested := g.Batch(l); nested != nil {
						nested.Release()
					}
					inside.Add(-1)
					b.Release()
				}
			})
		}
		g.Shut()
		g.Wait()
		require.Zero(t, inside.Load())
		wait.Wait()
	}
}
