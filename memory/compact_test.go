package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const compacting = "expandable_segments:True,expandable_segments_compaction:1"

// Free pages between blocks in use serve a request that is larger than any of the holes.
func TestCompaction_PagesMoveToWhereTheyAreNeeded(t *testing.T) {
	for conf, want := range map[string]uint64{"expandable_segments:True": 140 * mib, compacting: 100 * mib} {
		r := newRig(t, 1024*mib, conf)
		var keep, gone []Block
		for range 5 {
			gone = append(gone, r.alloc(10*mib, 0))
			keep = append(keep, r.alloc(10*mib, 0))
		}
		r.free(gone...)
		big := r.alloc(40*mib, 0)
		require.Equal(t, want, r.reserved(), conf)
		r.free(big)
		r.free(keep...)
	}
}

// A program that has found a layout within the bound takes nothing more, and gives nothing back.
func TestCompaction_ARepeatedStepMakesNoCalls(t *testing.T) {
	r := newRig(t, 1024*mib, "expandable_segments:True,expandable_segments_compaction:1.5")
	step := func() {
		a, b, c := r.alloc(10*mib, 0), r.alloc(30*mib, 0), r.alloc(6*mib, 0)
		r.free(a, c)
		d := r.alloc(12*mib, 0)
		r.free(b, d)
	}
	for range 3 {
		step()
	}
	r.takeLog()
	for range 3 {
		step()
	}
	require.Empty(t, r.takeLog())
}

// The place that needs the fewest pages may end in a free block: what is free behind it moves as well.
func TestCompaction_OfWhatIsFreeBehindThePlace(t *testing.T) {
	r := newRig(t, 1024*mib, compacting102)
	for range 20 {
		x, y := r.alloc(15*mib, 0), r.alloc(mib, 0)
		r.free(x)
		z := r.alloc(17*mib, 0)
		require.LessOrEqual(t, r.reserved(), uint64(20*mib), "18 MiB in use, in whole pages")
		r.free(z, y)
	}
}

// What is cached for one stream becomes another's, once its work is done.
func TestCompaction_StreamsShareFreePages(t *testing.T) {
	r := newRig(t, 1024*mib, compacting)
	r.free(r.alloc(64*mib, 0))
	b := r.alloc(64*mib, 1)
	require.EqualValues(t, 64*mib, r.reserved())
	r.free(b)
}

// Before more is taken, blocks that wait for another stream are waited for.
func TestCompaction_WaitsForFreedBlocks(t *testing.T) {
	r := newRig(t, 1024*mib, compacting)
	b := r.alloc(64*mib, 0)
	r.record(b, 1)
	r.free(b)
	again := r.alloc(64*mib, 0)
	require.Equal(t, b.Ptr(), again.Ptr())
	require.EqualValues(t, 64*mib, r.reserved())
	r.free(again)
}

// The limits of the setting; without expandable segments it does nothing.
func TestCompaction_OfNoExpandableSegments(t *testing.T) {
	for _, text := range []string{"0.9", "1001", "NaN", "-1", "True"} {
		_, err := ParseConfig("expandable_segments_compaction:" + text)
		var e *ConfigError
		require.ErrorAs(t, err, &e, text)
		require.Equal(t, keyCompaction, e.Key)
		require.Equal(t, wantCompaction, e.Want)
	}
	require.Error(t, Config{Compaction: 0.5}.Validate())
	r := newRig(t, 1024*mib, "expandable_segments_compaction:1")
	r.free(r.alloc(3*mib, 0))
	require.EqualValues(t, 20*mib, r.reserved())
}
