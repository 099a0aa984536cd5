//go:build invariants

package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// falsify makes the books wrong, and puts them right at the end of the test.
func falsify(r *rig) {
	sh, err := r.a.shardOf(r.stream(0))
	require.NoError(r.t, err)
	add := func(n int64) {
		sh.mu.Lock()
		sh.tally.pool[smallPool].current[hotAllocation] += n
		sh.mu.Unlock()
	}
	add(1)
	r.t.Cleanup(func() { add(-1) }) // before the allocator is closed
}

func TestInvariants_BrokenOnesPanicAfterThePublicCall(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(*rig, Block) error
		want string
	}{
		{"Alloc", func(r *rig, _ Block) error { _, err := r.a.Alloc(512, r.stream(0)); return err }, "3, the blocks add up to 2"},
		{"Free", func(r *rig, b Block) error { return r.a.Free(b) }, "1, the blocks add up to 0"},
		{"RecordStream", func(r *rig, b Block) error { return r.a.RecordStream(b, r.stream(1)) }, "2, the blocks add up to 1"},
		{"EmptyCache", func(r *rig, _ Block) error { return r.a.EmptyCache() }, "2, the blocks add up to 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, gib, "")
			b := r.alloc(512, 0)
			falsify(r)
			require.PanicsWithValue(t, "after "+c.name+" on "+r.a.Device().String()+
				": memory: invariant broken: allocation of the small pool is "+c.want, func() { _ = c.call(r, b) })
		})
	}
}

// A source gives memory back while its caller holds the driver lock: its frees are not followed by a check, which would wait for
// ever.
func TestInvariants_SourcesMayFree(t *testing.T) {
	r := newRig(t, gib, "")
	held := r.alloc(12*mib, 0)
	p := r.a.NewPool(PoolSource(&hookedSource{r.dev, nothing, func() { require.NoError(t, r.a.Free(held)) }}))
	r.free(r.allocIn(p, 12*mib, 0))
	require.NoError(t, p.Close())
	require.Equal(t, held.Ptr(), r.alloc(12*mib, 0).Ptr())
}

func TestInvariants_ChecksComeLessOftenWithManyBlocks(t *testing.T) {
	r := newRig(t, 64*gib, "")
	for range 100 * blocksPerCall {
		_, err := r.a.Alloc(512, r.stream(0))
		require.NoError(t, err)
	}
	require.Positive(t, r.a.auditor.skip.Load()+1)
	require.LessOrEqual(t, r.a.auditor.skip.Load(), int64(101))
}
