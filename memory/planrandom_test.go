package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// planProgram is a program that repeats itself, now and then with something else in between.
type planProgram struct {
	*rig
	rng    *rand.Rand
	plan   *Plan
	live   []planned
	fail   bool // the driver fails now and then
	script []planOp
}

// planOp is one request of a step: its size, its stream, and before which later request it is freed.
type planOp struct {
	size   uint64
	stream int
	end    int
}

// planned is a block in use.
type planned struct {
	Block
	end int // the request, counted from the beginning of the step, before which it is freed
}

func newPlanProgram(t *testing.T, seed uint64, fail bool) *planProgram {
	rng := rand.New(rand.NewPCG(seed, 1))
	confs := []string{"", "expandable_segments:True", "expandable_segments:True,expandable_segments_compaction:1.02", "max_split_size_mb:40",
		"garbage_collection_threshold:0.6,per_process_memory_fraction:0.8", "expandable_segments:True,expandable_segments_compaction:1",
		sharing, sharing + ",expandable_segments:True", sharing + ",expandable_segments:True,expandable_segments_compaction:1"}
	p := &planProgram{rig: newRig(t, 400*mib, confs[rng.IntN(len(confs))]), rng: rng, fail: fail}
	p.write()
	var err error
	p.plan, err = p.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	return p
}

// write makes a new step.
func (p *planProgram) write() {
	n := 3 + p.rng.IntN(30)
	p.script = nil
	for i := range n {
		op := planOp{size: p.size(), end: i + 1 + p.rng.IntN(n)}
		if p.rng.IntN(5) == 0 {
			op.stream = 1
		}
		p.script = append(p.script, op)
	}
}

func (p *planProgram) size() uint64 {
	return uint64(1 + p.rng.IntN(1<<(1+p.rng.IntN(24))))
}

// step runs the script once, with a deviation for one request in deviate.
func (p *planProgram) step(deviate int) {
	require.NoError(p.t, p.tolerated(p.plan.Step()))
	for i := range p.live {
		p.live[i].end -= len(p.script)
	}
	odd := func() bool { return deviate > 0 && p.rng.IntN(deviate) == 0 }
	for i, op := range p.script {
		p.freeDue(i, odd)
		if odd() {
			switch p.rng.IntN(6) {
			case 0:
				continue
			case 1:
				op.size = p.size()
			case 2:
				op.end += p.rng.IntN(3 * len(p.script))
			case 3:
				p.request(planOp{p.size(), p.rng.IntN(2), i + 1 + p.rng.IntN(5)})
			case 4:
				require.NoError(p.t, p.tolerated(p.a.EmptyCache()))
				p.check()
			case 5:
				p.complete(p.rng.IntN(3))
			}
		}
		p.request(op)
	}
}

// freeDue frees what the step has no more use for, in any order.
func (p *planProgram) freeDue(i int, odd func() bool) {
	p.rng.Shuffle(len(p.live), func(i, j int) { p.live[i], p.live[j] = p.live[j], p.live[i] })
	p.live = slices.DeleteFunc(p.live, func(b planned) bool {
		if b.end > i || odd() {
			return false
		}
		if p.rng.IntN(6) == 0 {
			p.record(b.Block, p.rng.IntN(3))
		}
		p.free(b.Block)
		return true
	})
}

func (p *planProgram) request(op planOp) {
	if p.fail {
		left := p.rng.IntN(60)
		p.dev.Inject(func(sim.Call) error {
			if left--; left == 0 {
				return errors.New("injected")
			}
			return nil
		})
	}
	b, err := p.a.Alloc(op.size, p.stream(op.stream))
	p.dev.Inject(nil)
	p.check()
	if err != nil {
		require.NoError(p.t, p.tolerated(err))
		return
	}
	p.live = append(p.live, planned{b, op.end})
	p.requireApart()
}

// tolerated is nil for errors that are no fault of the allocator.
func (p *planProgram) tolerated(err error) error {
	if errors.Is(err, ErrOutOfMemory) || p.fail && err != nil {
		return nil
	}
	return err
}

// requireApart proves that no two blocks in use have an address in common, and that all lie in memory of the device.
func (p *planProgram) requireApart() {
	blocks := slices.SortedFunc(slices.Values(p.live), func(x, y planned) int { return compareAddress(x.b, y.b) })
	var end device.Ptr
	for _, b := range blocks {
		require.GreaterOrEqual(p.t, b.Ptr(), end, "two blocks overlap at %#x", uintptr(b.Ptr()))
		end = b.Ptr().Add(b.Size())
		_, _, ok := p.dev.Segment(b.Ptr())
		require.True(p.t, ok)
	}
}

// Whatever the program does between two steps that are alike: no two blocks overlap, the books are right, and in the end the device
// has everything back.
func TestPlan_RandomProgramsKeepTheInvariants(t *testing.T) {
	for seed := range uint64(60) {
		for _, fail := range []bool{false, true} {
			t.Run(fmt.Sprint(seed, fail), func(t *testing.T) {
				p := newPlanProgram(t, seed, fail)
				for range 12 {
					if p.rng.IntN(6) == 0 {
						p.write()
					}
					p.step([]int{0, 0, 5, 20, 60}[p.rng.IntN(5)])
				}
				for _, b := range p.live {
					p.free(b.Block)
				}
				for s := range 3 {
					p.complete(s)
				}
				require.NoError(t, p.plan.Close())
				p.empty()
				require.Zero(t, p.reserved())
			})
		}
	}
}
