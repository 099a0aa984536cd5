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
	left int // calls of the driver until one fails, in shortOfMemory; 0 for none
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

// shortOfMemory ends a step in which a small block lies in a stitch with one that is larger than all that the limit leaves beside the others, and calls f before that is freed.
func (s *stitchProgram) shortOfMemory(large, small uint64, f func(err error)) {
	step := func(limited bool) {
		require.NoError(s.t, s.plan.Step())
		s.free(s.alloc(large, 0))
		x := s.alloc(small, 0)
		if limited {
			st := x.b.shard.steps
			require.NotNil(s.t, st.stitchOf(x.b.slot.home), "%d %d", large, small)
			s.a.SetMemoryLimit(s.a.allocatedBytes() + large + 17*mib) // of those that stay each has a page or two
			s.dev.Inject(func(c sim.Call) error {
				if s.left--; s.left == 0 {
					return fmt.Errorf("injected in %v", c.Kind)
				}
				return nil
			})
			y, err := s.tryAlloc(large, 0)
			s.dev.Inject(nil)
			f(err)
			if err == nil {
				s.free(y)
			}
			s.a.SetMemoryLimit(0)
		}
		s.free(x)
	}
	for i := range 5 {
		step(i == 3)
	}
}

// stitchSizes are sizes of a large block and a small one that lie in one stitch.
var stitchSizes = [][2]uint64{{35 * mib, 3 * mib}, {34*mib + 512*kib, 5 * mib}, {21*mib + 900*kib, 2*mib + 700*kib}, {50 * mib, mib}}

// A request that would fail has the pages of a stitch of which a small part is in use.
func TestStitch_GivesUpWhatIsNotInUse(t *testing.T) {
	for _, sizes := range stitchSizes {
		s := newStitchProgram(t)
		s.shortOfMemory(sizes[0], sizes[1], func(err error) {
			require.NoError(t, err, "%d", sizes)
			require.EqualValues(t, s.reserved(), s.dev.Calls().BytesNow)
			require.EqualValues(t, s.reserved(), reservedBy(s.a.SnapshotInPieces()))
		})
		s.free(s.kept...)
		require.NoError(t, s.plan.Close())
		s.empty()
		require.Zero(t, s.reserved())
	}
}

// So it is where a call of the driver fails meanwhile, but for the request.
func TestStitch_GivesUpWhatTheDriverTakes(t *testing.T) {
	for n := 1; ; n++ {
		s := newStitchProgram(t)
		s.left = n
		s.shortOfMemory(stitchSizes[0][0], stitchSizes[0][1], func(err error) {
			if err != nil && !errors.Is(err, ErrOutOfMemory) {
				require.ErrorContains(t, err, "injected in ", "call %d", n)
			}
			require.EqualValues(t, s.reserved(), s.dev.Calls().BytesNow, "call %d", n)
			require.EqualValues(t, s.reserved(), reservedBy(s.a.SnapshotInPieces()), "call %d", n)
		})
		s.free(s.kept...)
		require.NoError(t, s.plan.Close())
		for range 2 { // once more for what the driver refused
			s.empty()
		}
		require.Zero(t, s.reserved(), "call %d", n)
		if s.left > 0 {
			require.Greater(t, n, 20)
			return
		}
	}
}
