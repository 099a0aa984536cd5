package oplabel

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf_KeepsEachLabelOnce(t *testing.T) {
	a, b := Of(Label{Op: "add", Module: "h.0"}), Of(Label{Op: "add", Module: "h.1"})
	require.NotEqual(t, a, b)
	require.Equal(t, a, Of(Label{Op: "add", Module: "h.0"}))
	require.Equal(t, Label{Op: "add", Module: "h.1"}, b.Label())
	require.Zero(t, Of(Label{}))
	require.Zero(t, ID(1<<30).Label())
}

func TestEnter_IsOfOneGoroutine(t *testing.T) {
	require.Zero(t, Current())
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			id := ID(i + 1)
			before := Enter(id)
			inner := Enter(id + 1000)
			if before != 0 || inner != id || Current() != id+1000 {
				t.Errorf("goroutine %d: before %d, inner %d, current %d", i, before, inner, Current())
			}
			Enter(inner)
			if Enter(before) != id || Current() != 0 {
				t.Errorf("goroutine %d has label %d at its end", i, Current())
			}
		})
	}
	group.Wait()
	require.Zero(t, Current())
}

func TestWant_IsCounted(t *testing.T) {
	require.False(t, Wanted())
	a, b := Want(), Want()
	a()
	a()
	require.True(t, Wanted())
	b()
	require.False(t, Wanted())
}

func BenchmarkEnter(b *testing.B) {
	for range b.N {
		Enter(Enter(7))
	}
}
