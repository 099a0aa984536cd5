package replay

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

// Options say how to replay.
type Options struct {
	Capacity uint64        // bytes of the device; on the host, 0 means the machine's memory
	Config   memory.Config // settings of the caching allocator
	Fraction *float64      // memory fraction; nil is what Config says
	Planned  bool          // with a plan that learns: each mark begins a step
	Direct   bool          // a driver call for each request instead of the caching allocator
	Device   device.Kind   // Sim, which is also 0, or Host: real memory, of which nobody touches a byte

	// After is called after each event, counted from 1, with the allocator's state; an error of it ends the replay. May be nil.
	After func(a memory.Allocator, event int) error
}

// allocator makes the allocator that the options ask for.
func (o Options) allocator(m machine) (memory.Allocator, error) {
	if o.Direct {
		return memory.NewDirect(m.driver()), nil
	}
	c := o.Config
	if o.Fraction != nil {
		c.MemoryFraction = o.Fraction
	}
	a, err := memory.New(m.driver(), c)
	if err != nil {
		return nil, err // not a typed nil
	}
	return a, nil
}

// plan gives an allocator its plan, if the options ask for one.
func (o Options) plan(a memory.Allocator) (*memory.Plan, error) {
	if c, ok := a.(*memory.Caching); ok && o.Planned {
		return c.NewPlan(memory.PlanWait(time.Minute)) // a trace takes no time between its requests
	}
	return nil, nil
}

// sampleEvery is how many events lie between two samples of the series.
const sampleEvery = 1000

// player is a replay under way.
type player struct {
	machine   machine
	alloc     memory.Allocator
	blocks    []memory.Block // by id
	sizes     []uint64
	alive     []bool
	live      int
	placement hash.Hash64
	result    *Result
	plan      *memory.Plan // nil if there is none
	steady    *steadyWatch // nil before the mark that it begins at
}

// Run replays t on a new device. Requests that find no memory are part of the result; any other failure of the allocator or
// the device ends the replay with a *trace.Error that names the line.
func Run(t *trace.Trace, o Options) (*Result, error) {
	m, err := o.open(newBooks())
	if err != nil {
		return nil, err
	}
	return o.runOn(m, t)
}

// runOn replays t on a device and closes it.
func (o Options) runOn(m machine, t *trace.Trace) (r *Result, err error) {
	defer func() { err = errors.Join(err, m.close()) }()
	a, err := o.allocator(m)
	if err != nil {
		return nil, err
	}
	p := &player{
		machine: m, alloc: a, placement: fnv.New64a(), result: newResult(t, o),
		blocks: make([]memory.Block, t.Allocs), sizes: make([]uint64, t.Allocs), alive: make([]bool, t.Allocs),
	}
	if p.plan, err = o.plan(a); err != nil {
		return nil, errors.Join(err, p.end())
	}
	if err := p.playAll(t, o); err != nil {
		return nil, errors.Join(err, p.end())
	}
	if err := p.finish(); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p.result, p.end()
}

func (p *player) playAll(t *trace.Trace, o Options) error {
	r := p.result
	for _, e := range t.Events {
		if e.Kind == trace.Mark {
			if err := p.mark(e); err != nil {
				return &trace.Error{Name: t.Name, Line: e.Line, What: fmt.Sprintf("%q: %v", e, err), Err: err}
			}
			continue
		}
		err := p.play(e)
		r.Events++
		p.steady.look(p.alloc)
		if err == nil && o.After != nil {
			err = o.After(p.alloc, r.Events)
		}
		if err != nil {
			return &trace.Error{Name: t.Name, Line: e.Line, What: fmt.Sprintf("%q: %v", e, err), Err: err}
		}
		if r.Events%sampleEvery == 0 {
			r.Series = append(r.Series, p.sample(""))
		}
	}
	r.Marks = append(r.Marks, p.sample("(end of trace)"))
	return nil
}

func (p *player) play(e trace.Event) error {
	switch e.Kind {
	case trace.Alloc:
		return p.playAlloc(e)
	case trace.Free:
		p.result.Frees++
		return p.free(e.ID)
	case trace.Record:
		p.result.Records++
		if !p.alive[e.ID] {
			return nil
		}
		s, err := p.machine.stream(e.Stream)
		if err != nil {
			return err
		}
		return p.alloc.RecordStream(p.blocks[e.ID], s)
	case trace.Complete:
		return p.machine.complete(e.Stream)
	case trace.Empty:
		return p.alloc.EmptyCache()
	}
	return nil
}

func (p *player) playAlloc(e trace.Event) error {
	s, err := p.machine.stream(e.Stream)
	if err != nil {
		return err
	}
	r := p.result
	b, err := p.alloc.Alloc(e.Bytes, s)
	if errors.Is(err, memory.ErrOutOfMemory) {
		r.OOMs = append(r.OOMs, [3]uint64{uint64(r.Events + 1), uint64(e.ID), e.Bytes})
		fmt.Fprintf(p.placement, "a %d oom\n", e.ID)
		return nil
	}
	if err != nil {
		return err
	}
	segment, offset := p.machine.segment(b.Ptr())
	fmt.Fprintf(p.placement, "a %d %d %d\n", e.ID, segment, offset)
	p.blocks[e.ID], p.sizes[e.ID], p.alive[e.ID] = b, e.Bytes, true
	p.live++
	r.LivePeak = max(r.LivePeak, p.live)
	r.Requested.Current += e.Bytes
	r.Requested.Peak = max(r.Requested.Peak, r.Requested.Current)
	return nil
}

// free gives a block back. It does nothing for one that there was no memory for.
func (p *player) free(id int) error {
	if !p.alive[id] {
		return nil
	}
	p.alive[id] = false
	p.live--
	p.result.Requested.Current -= p.sizes[id]
	return p.alloc.Free(p.blocks[id])
}

// sample is the state after the events so far.
func (p *player) sample(label string) Sample {
	s := p.alloc.Stats()
	return Sample{Label: label, Event: p.result.Events, Allocated: s.AllocatedBytes.All.Current,
		Reserved: s.ReservedBytes.All.Current, Active: s.ActiveBytes.All.Current,
		InactiveSplit: s.InactiveSplitBytes.All.Current, Hash: hex(p.placement)}
}

func hex(h hash.Hash64) string { return fmt.Sprintf("%016x", h.Sum64()) }

// finish takes the numbers at the end.
func (p *player) finish() error {
	r := p.result
	r.Stats = p.alloc.Stats()
	r.Steady = p.steady.result(p)
	if peak := r.Stats.AllocatedBytes.All.Peak; peak > 0 {
		r.PeakFragmentation = float64(r.Stats.ReservedBytes.All.Peak) / float64(peak)
	}
	r.Driver = p.machine.calls()
	r.Hash.Placement, r.Hash.Driver = hex(p.placement), p.machine.log()
	r.Final, r.Hash.FinalSegments = p.finalSegments()
	r.ID = p.alloc.Device()
	if r.Config.Capacity == 0 {
		info, err := p.machine.driver().MemInfo()
		if err != nil {
			return err
		}
		r.Config.Capacity = info.Total
	}
	return nil
}

// end frees what the trace left alive, which is no leak of the allocator, and closes it.
func (p *player) end() error {
	var errs []error
	for id, alive := range p.alive {
		if alive {
			errs = append(errs, p.alloc.Free(p.blocks[id]))
		}
	}
	return errors.Join(append(errs, p.alloc.Close())...)
}
