package memory

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
)

// stitchProgram is a program whose blocks that stay leave the ends of pages free: 2.5 MiB after each 0.75 MiB.
type stitchProgram struct {
	*rig
	plan *Plan
	kept []Block
}

func newStitchProgram(t *testing.T) *stitchProgram {
	s := &stitchProgram{rig: newRig(t, 1024*mib, "expandable_segments:True,expandable_segments_compaction:1.02")}
	var holes []Block
	for range 8 {
		s.kept = append(s.kept, s.alloc(768*kib, 0))
		holes = append(holes, s.alloc(2560*kib, 0))
	}
	s.free(holes...)
	var err error
	s.plan, err = s.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	return s
}

// step has four blocks of 5 MiB and one of 1 MiB at once.
func (s *stitchProgram) step() {
	require.NoError(s.t, s.plan.Step())
	var held []Block
	for range 4 {
		held = append(held, s.alloc(5*mib, 0))
	}
	s.free(s.alloc(mib, 0))
	s.free(held...)
}

// The ends of pages between blocks that stay serve blocks that are larger than a page.
func TestStitch_JoinsTheEndsOfPages(t *testing.T) {
	s := newStitchProgram(t)
	for range 4 {
		s.step()
	}
	st := s.kept[0].b.shard.steps
	require.NotEmpty(t, st.stitches)
	require.EqualValues(t, 27*mib, s.a.Stats().ActiveBytes.All.Peak)
	require.LessOrEqual(t, s.reserved(), uint64(30*mib), "40 MiB with blocks in place alone")
	require.EqualValues(t, 0, s.plan.Stats().Refused)

	// A snapshot tells each byte of the device once, also while they are in use.
	require.NoError(t, s.plan.Step())
	held := []Block{s.alloc(5*mib, 0), s.alloc(5*mib, 0), s.alloc(5*mib, 0)}
	for _, snapshot := range []Snapshot{s.a.Snapshot(), s.a.SnapshotInPieces()} {
		sum, active := uint64(0), uint64(0)
		for _, seg := range snapshot.Segments {
			sum += seg.TotalSize
			active += seg.ActiveSize
		}
		require.EqualValues(t, s.reserved(), sum)
		require.EqualValues(t, 21*mib, active)
	}
	s.free(held...)

	s.free(s.kept...)
	require.NoError(t, s.plan.Close())
	s.empty()
	require.Zero(t, s.reserved())
	require.Empty(t, st.stitches)
}

// Whatever call of the driver fails: the books are those of the device, and in the end it has everything back.
func TestStitch_LosesNothingWhenTheDriverFails(t *testing.T) {
	for n := 1; ; n++ {
		s := newStitchProgram(t)
		s.step()
		left, failed := n, false
		s.dev.Inject(func(c sim.Call) error {
			if left--; left == 0 {
				failed = true
				return fmt.Errorf("injected in %v", c.Kind)
			}
			return nil
		})
		tolerate := func(err error) {
			if err != nil {
				require.ErrorContains(t, err, "injected in ", "call %d", n)
			}
		}
		for range 3 {
			tolerate(s.plan.Step())
			var held []Block
			for range 4 {
				b, err := s.a.Alloc(5*mib, s.stream(0))
				tolerate(err)
				held = append(held, b)
				s.check()
				require.EqualValues(t, s.reserved(), s.dev.Calls().BytesNow, "call %d", n)
				require.EqualValues(t, s.reserved(), reservedBy(s.a.SnapshotInPieces()), "call %d", n)
			}
			for _, b := range held {
				tolerate(s.a.Free(b))
			}
		}
		tolerate(errors.Join(s.plan.Close()))
		require.EqualValues(t, s.reserved(), reservedBy(s.a.Snapshot()), "call %d", n)
		s.dev.Inject(nil)
		s.free(s.kept...)
		for range 2 { // once more for what the driver refused
			s.empty()
		}
		require.Zero(t, s.reserved(), "call %d", n)
		require.Zero(t, s.dev.Calls().BytesNow, "call %d", n)
		if !failed {
			require.Greater(t, n, 20)
			return
		}
	}
}

// reservedBy is how much memory a snapshot has.
func reservedBy(s Snapshot) (sum uint64) {
	for _, seg := range s.Segments {
		sum += seg.TotalSize
	}
	return sum
}
