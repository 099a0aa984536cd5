package memory_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/memory"
)

// What is written by the address of an alias is read there, and what stays in the same pages keeps its content.
func TestPlan_StitchesKeepContentOnCUDA(t *testing.T) {
	const mib = 1 << 20
	d := cudatest.New(t, 1).Devices[0]
	config, err := memory.ParseConfig("expandable_segments:True,expandable_segments_compaction:1.02")
	require.NoError(t, err)
	a, err := memory.New(d, config)
	require.NoError(t, err)
	s := d.DefaultStream()
	value := byte(0)
	want := map[memory.Block]byte{}
	alloc := func(n uint64) memory.Block {
		b, err := a.Alloc(n, s)
		require.NoError(t, err)
		value++
		require.NoError(t, s.Fill(b.Ptr(), value, n))
		want[b] = value
		return b
	}
	look := func() {
		for b, v := range want {
			got := make([]byte, b.Size())
			require.NoError(t, s.CopyToHost(got, b.Ptr()))
			require.Equal(t, len(got), bytes.Count(got, []byte{v}), "%d bytes at %#x", len(got), uintptr(b.Ptr()))
		}
	}
	free := func(b memory.Block) {
		delete(want, b)
		require.NoError(t, a.Free(b))
	}
	var kept, holes []memory.Block
	for range 8 {
		kept = append(kept, alloc(768<<10))
		holes = append(holes, alloc(2560<<10))
	}
	for _, b := range holes {
		free(b)
	}
	plan, err := a.NewPlan(memory.PlanWait(time.Minute))
	require.NoError(t, err)
	for range 4 {
		require.NoError(t, plan.Step())
		var held []memory.Block
		for range 4 {
			held = append(held, alloc(5*mib))
		}
		look()
		for _, b := range held {
			free(b)
		}
	}
	require.LessOrEqual(t, a.Stats().ReservedBytes.All.Current, int64(30*mib), "40 MiB without stitches")
	for _, b := range kept {
		free(b)
	}
	require.NoError(t, plan.Close())
	require.NoError(t, a.EmptyCache())
	require.Zero(t, a.Stats().ReservedBytes.All.Current)
	require.NoError(t, a.Close())
}
