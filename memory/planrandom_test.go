package memory

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// planProgram is a program that repeats itself, now and then with something else in between.
type planProgram struct {
	served uint64 // requests
	*rig
	rng      *rand.Rand
	plan     *Plan
	live     []planned
	stitches int  // most there were
	fail     bool // the driver fails now and then
	script   []planOp
	other    []planOp // that it had before, and takes again now and then
	length   int      // requests of the step before
	agreed   int      // blocks that two programs had at the same place of the arena
	borrowed int      // and of borrowed memory
	pinned   int      // blocks that stayed where programs were placed around them
	adopted  int      // not 0 if the plan gave up what it had
	models   int      // times that all of it was given back, and other blocks stay
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

func newPlanProgram(t *testing.T, rng *rand.Rand, fail bool) *planProgram {
	confs := []string{"", "expandable_segments:True", "expandable_segments:True,expandable_segments_compaction:1.02", "max_split_size_mb:40",
		"garbage_collection_threshold:0.6,per_process_memory_fraction:0.8", "expandable_segments:True,expandable_segments_compaction:1",
		sharing, sharing + ",expandable_segments:True", sharing + ",expandable_segments:True,expandable_segments_compaction:1"}
	capacity := []uint64{400, 400, 160, 90}[rng.IntN(4)] * mib // in the last ones plans give up what they have, now and then
	p := &planProgram{rig: newRig(t, capacity, confs[rng.IntN(len(confs))]), rng: rng, fail: fail}
	p.write()
	if rng.IntN(2) == 0 {
		p.keep()
	}
	var err error
	p.plan, err = p.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	return p
}

// forever is later than any program lasts.
const forever = 1 << 30

// keep allocates what stays, with holes between.
func (p *planProgram) keep() {
	for i := range 24 {
		end := forever
		if i%2 == 0 {
			end = 0
		}
		p.request(planOp{size: uint64(1 + p.rng.IntN(3*mib)), end: end})
	}
}

// write makes a new step, which may begin like the one before.
func (p *planProgram) write() {
	n := 3 + p.rng.IntN(30)
	p.other = p.script
	p.script = nil
	if len(p.other) != 0 && p.rng.IntN(2) == 0 {
		p.script = slices.Clone(p.other[:p.rng.IntN(min(n, len(p.other)))])
	}
	for i := len(p.script); i < n; i++ {
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
		p.live[i].end -= p.length
	}
	p.length = len(p.script)
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
	if p.length != 0 { // a step has begun
		p.served++
		s := p.plan.Stats()
		require.Equal(p.t, p.served, s.Served+s.Outside+s.Missed+s.Unknown+s.Refused, "%+v", s)
	}
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
	var parts []memoryPart
	for _, b := range p.live {
		parts = append(parts, partsOf(p.a, b.Block)...)
	}
	slices.SortFunc(parts, func(x, y memoryPart) int { return cmp.Compare(x.from, y.from) })
	var end device.Ptr
	for _, x := range parts {
		require.GreaterOrEqual(p.t, x.from, end, "two blocks overlap at %#x", uintptr(x.from))
		end = x.to
		_, _, ok := p.dev.Segment(x.from)
		require.True(p.t, ok)
	}
	for _, sh := range *p.a.shards.Load() {
		if sh.steps != nil {
			p.stitches = max(p.stitches, len(sh.steps.stitches))
			p.agreed, p.borrowed = p.agreed+agreed(sh.steps, false), p.borrowed+agreed(sh.steps, true)
		}
	}
}

// agreed counts the blocks that two programs have at one place, in borrowed memory or the arena. Caller holds no lock.
func agreed(st *steps, borrowed bool) (n int) {
	for k, p := range st.programs {
		for _, q := range st.programs[:k] {
			if !alikeAgain(p, q) || p.slots == nil || q.slots == nil {
				continue
			}
			for _, i := range together(p, q, alike(p, q)) {
				x, ok := p.slots[i].place()
				y, also := q.slots[i].place()
				if ok && also && x == y && (x.home != nil) == borrowed {
					n++
				}
			}
		}
	}
	return n
}

// memoryPart is a part of a block, at an address that no other part of the device's memory has: what lies in the end of a stitch is told by the
// address of the page that it is an alias of.
type memoryPart struct{ from, to device.Ptr }

// partsOf are the parts of a block in use. Caller holds no lock.
func partsOf(a *Caching, b Block) (list []memoryPart) {
	sh := b.b.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	from, to := b.Ptr(), b.Ptr().Add(b.Size())
	if sh.steps == nil {
		return []memoryPart{{from, to}}
	}
	for _, s := range sh.steps.stitches {
		end := s.own.Add(s.pages)
		if from < s.b.ptr || from >= s.b.ptr.Add(s.b.size) {
			continue
		}
		if from < s.own { // in the head, whose last byte is the one before own
			n := uint64(min(to, s.own) - from)
			at := s.head.ptr().Add(s.head.size - uint64(s.own-from))
			list = append(list, memoryPart{at, at.Add(n)})
			from = from.Add(n)
		}
		if from < min(to, end) {
			list = append(list, memoryPart{from, min(to, end)})
			from = min(to, end)
		}
		if from < to {
			at := s.tail.ptr().Add(uint64(from - end))
			list = append(list, memoryPart{at, at.Add(uint64(to - from))})
		}
		return list
	}
	return []memoryPart{{from, to}}
}

// Whatever the program does between two steps that are alike: no two blocks overlap, the books are right, and in the end the device
// has everything back.
func TestPlan_RandomProgramsKeepTheInvariants(t *testing.T) {
	stitches, agreed, borrowed, pinned, models, adopted := 0, 0, 0, 0, 0, 0
	for seed := range uint64(planSeeds()) {
		for _, fail := range []bool{false, true} {
			t.Run(fmt.Sprint(seed, fail), func(t *testing.T) {
				p := newPlanProgram(t, rand.New(rand.NewPCG(seed, 1)), fail)
				p.run(12)
				stitches, agreed, borrowed = stitches+p.stitches, agreed+p.agreed, borrowed+p.borrowed
				pinned, models, adopted = pinned+p.pinned, models+p.models, adopted+p.adopted
			})
		}
	}
	require.NotZero(t, stitches, "no program made one")
	require.NotZero(t, agreed, "no two programs had anything in common")
	require.NotZero(t, borrowed, "nor in borrowed memory")
	require.NotZero(t, pinned, "nothing was placed around what stays")
	require.NotZero(t, models)
	require.NotZero(t, adopted, "no program was short of memory for the plan's sake")
}

// run takes some steps, and ends the program.
func (p *planProgram) run(steps int) {
	for range steps {
		if p.rng.IntN(6) == 0 {
			p.write()
		}
		if p.other != nil && p.rng.IntN(2) == 0 {
			p.script, p.other = p.other, p.script
		}
		if p.rng.IntN(8) == 0 {
			p.freeAll()
			p.keep()
			p.models++
		}
		p.step([]int{0, 0, 5, 20, 60}[p.rng.IntN(5)])
		for _, sh := range *p.a.shards.Load() {
			for _, q := range sh.steps.programs {
				p.pinned = max(p.pinned, q.pins)
			}
			p.adopted = max(p.adopted, sh.steps.adopted.steps)
		}
	}
	p.freeAll()
	for s := range 3 {
		p.complete(s)
	}
	require.NoError(p.t, p.plan.Close())
	p.empty()
	require.Zero(p.t, p.reserved())
}

func (p *planProgram) freeAll() {
	for _, b := range p.live {
		p.free(b.Block)
	}
	p.live = nil
}

// choices are what a program does, one byte for each time that it decides; at the end they begin anew, with other bytes.
type choices struct {
	list []byte
	next int
}

func (c *choices) Uint64() uint64 {
	if len(c.list) == 0 {
		c.list = []byte{0}
	}
	round := uint64(c.next / len(c.list))
	v := uint64(c.list[c.next%len(c.list)]) + round*0x9e3779b97f4a7c15 // so that no program repeats itself for ever
	c.next++
	return (v ^ v>>31) * 0x9e3779b97f4a7c15
}

// FuzzPlan has programs that decide by the input's bytes.
func FuzzPlan(f *testing.F) {
	for seed := range uint64(9) {
		f.Add(seed%2 == 0, randomBytes(seed, 400))
	}
	f.Fuzz(func(t *testing.T, fail bool, decisions []byte) {
		newPlanProgram(t, rand.New(&choices{list: decisions}), fail).run(6)
	})
}

// planSeeds is how many random programs are tried; the environment has another number for longer runs.
func planSeeds() int {
	if n, err := strconv.Atoi(os.Getenv("CISTERN_PLAN_SEEDS")); err == nil {
		return n
	}
	return 60
}
