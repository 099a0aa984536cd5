// Package replay runs an allocation trace through an allocator and reports what PyTorch's allocator reports for the same
// trace: statistics, driver calls, hashes of every decision, and samples over time.
package replay

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

// Options say how to replay.
type Options struct {
	Capacity uint64                                    // bytes of the device
	Config   memory.Config                             // settings of the caching allocator
	Fraction *float64                                  // memory fraction; nil is no limit
	Direct   bool                                      // a driver call for each request instead of the caching allocator
	Check    func(a memory.Allocator, event int) error // called after each event, may be nil
}

// sampleEvery is how many events lie between two samples of the series.
const sampleEvery = 1000

// player is a replay under way.
type player struct {
	dev     *sim.Device
	alloc   memory.Allocator
	blocks  []memory.Block
	sizes   []uint64
	alive   []bool
	streams map[uint64]device.Stream

	placement hash.Hash64
	driver    hash.Hash64
	line      []byte
	segments  []place // by address
	granules  uint64  // bytes taken now, each piece rounded up to 2 MiB
	granPeak  uint64
	live      int
	quiet     bool // keep no books of driver calls
	result    *Result
}

// place is where a segment begins.
type place struct {
	ptr    device.Ptr
	number int
}

// Run replays t on a new simulated device.
func Run(t *trace.Trace, o Options) (*Result, error) {
	p, err := newPlayer(t, o)
	if err != nil {
		return nil, err
	}
	events := 0
	for _, e := range t.Events {
		if e.Kind == trace.Mark {
			p.result.Marks = append(p.result.Marks, p.sample(e.Label, events))
			continue
		}
		if err := p.play(e, events+1); err != nil {
			return nil, fmt.Errorf("event %d (%c %d): %w", events, e.Kind, e.ID, err)
		}
		events++
		if o.Check != nil {
			if err := o.Check(p.alloc, events); err != nil {
				return nil, fmt.Errorf("after event %d (%c %d): %w", events, e.Kind, e.ID, err)
			}
		}
		if events%sampleEvery == 0 {
			p.result.Series = append(p.result.Series, p.sample("", events))
		}
	}
	p.result.Marks = append(p.result.Marks, p.sample("(end of trace)", events))
	p.result.Events = events
	p.finish()
	return p.result, errors.Join(p.alloc.Close(), p.dev.Close())
}

func newPlayer(t *trace.Trace, o Options) (*player, error) {
	p := &player{
		blocks: make([]memory.Block, t.Allocs), sizes: make([]uint64, t.Allocs), alive: make([]bool, t.Allocs),
		streams:   map[uint64]device.Stream{},
		placement: fnv.New64a(), driver: fnv.New64a(),
		result: &Result{Allocs: t.Allocs},
	}
	p.dev = sim.New(o.Capacity, sim.ManualStreams(), sim.OnCall(p.onCall))
	if o.Direct {
		p.alloc = memory.NewDirect(p.dev)
		return p, nil
	}
	c := o.Config
	if o.Fraction != nil {
		c.MemoryFraction = o.Fraction
	}
	a, err := memory.New(p.dev, c)
	p.alloc = a
	return p, err
}

// onCall sees every driver call in order.
func (p *player) onCall(c sim.Call) {
	if p.quiet {
		return
	}
	p.line = c.LogLine(p.line[:0])
	p.driver.Write(p.line)
	if c.Err != nil {
		return
	}
	switch c.Kind {
	case sim.CallMalloc, sim.CallPageCreate:
		p.granules += granules(c.Bytes)
		p.granPeak = max(p.granPeak, p.granules)
	case sim.CallFree, sim.CallPageRelease:
		p.granules -= granules(c.Bytes)
	}
}

func granules(n uint64) uint64 { return (n + device.MiB*2 - 1) / (device.MiB * 2) * (device.MiB * 2) }

func (p *player) stream(id uint64) device.Stream {
	s := p.streams[id]
	if s == nil {
		s = p.dev.Stream(device.StreamID(id))
		p.streams[id] = s
	}
	return s
}

// play runs an event; number counts events from 1.
func (p *player) play(e trace.Event, number int) error {
	switch e.Kind {
	case trace.Alloc:
		return p.playAlloc(e, number)
	case trace.Free:
		p.result.Frees++
		if !p.alive[e.ID] {
			return nil
		}
		p.alive[e.ID] = false
		p.live--
		p.result.Requested.Current -= int64(p.sizes[e.ID])
		return p.alloc.Free(p.blocks[e.ID])
	case trace.Record:
		p.result.Records++
		if !p.alive[e.ID] {
			return nil
		}
		return p.alloc.RecordStream(p.blocks[e.ID], p.stream(e.Stream))
	case trace.Complete:
		p.dev.Complete(device.StreamID(e.Stream))
	case trace.Empty:
		return p.alloc.EmptyCache()
	}
	return nil
}

func (p *player) playAlloc(e trace.Event, number int) error {
	b, err := p.alloc.Alloc(e.Bytes, p.stream(e.Stream))
	if errors.Is(err, memory.ErrOutOfMemory) {
		p.result.OOMs = append(p.result.OOMs, [3]int64{int64(number), int64(e.ID), int64(e.Bytes)})
		fmt.Fprintf(p.placement, "a %d oom\n", e.ID)
		return nil
	}
	if err != nil {
		return err
	}
	segment, offset, _ := p.dev.Segment(b.Ptr())
	fmt.Fprintf(p.placement, "a %d %d %d\n", e.ID, segment, offset)
	p.blocks[e.ID], p.sizes[e.ID], p.alive[e.ID] = b, e.Bytes, true
	p.live++
	p.result.LivePeak = max(p.result.LivePeak, p.live)
	r := &p.result.Requested
	r.Current += int64(e.Bytes)
	r.Peak = max(r.Peak, r.Current)
	return nil
}

func (p *player) sample(label string, events int) Sample {
	s := p.alloc.Stats()
	return Sample{Label: label, Event: events, Allocated: s.AllocatedBytes.All.Current, Reserved: s.ReservedBytes.All.Current,
		Active: s.ActiveBytes.All.Current, InactiveSplit: s.InactiveSplitBytes.All.Current, Hash: hex(p.placement)}
}

func hex(h hash.Hash64) string { return fmt.Sprintf("%016x", h.Sum64()) }

func (p *player) finish() {
	r := p.result
	r.Stats = p.alloc.Stats()
	r.Driver = driverCounts(p.dev.Calls(), p.granPeak)
	r.Hash = Hashes{Placement: hex(p.placement), Driver: hex(p.driver)}
	if a, ok := p.alloc.(*memory.Caching); ok {
		r.Final, r.Hash.FinalSegments = p.finalSegments(a.Snapshot())
	}
	r.ID = p.alloc.Device()
}

// finalSegments hashes the map of the memory at the end.
func (p *player) finalSegments(s memory.Snapshot) (Final, string) {
	h := fnv.New64a()
	f := Final{Segments: len(s.Segments)}
	for _, seg := range s.Segments {
		number, offset, _ := p.dev.Segment(seg.Address)
		fmt.Fprintf(h, "S %d %d %d %d %s\n", number, offset, seg.TotalSize, seg.Stream, seg.Type)
		for _, b := range seg.Blocks {
			f.Blocks++
			fmt.Fprintf(h, "B %d %d %d\n", b.Size, bit(b.State == memory.ActiveAllocated), bit(b.State != memory.Inactive))
		}
	}
	return f, hex(h)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Time replays t twice on one simulated device, without sampling, and returns the time of the second, warm pass divided by
// its allocations. Only the allocator's work and the reading of the trace count; hashes and logs are left out.
func Time(t *trace.Trace, o Options) (time.Duration, error) {
	p, err := newPlayer(t, o)
	if err != nil {
		return 0, err
	}
	p.quiet = true
	var start time.Time
	for range 2 {
		start = time.Now()
		for _, e := range t.Events {
			if err := p.warm(e); err != nil {
				return 0, err
			}
		}
	}
	elapsed := time.Since(start)
	if t.Allocs == 0 {
		return 0, errors.Join(p.alloc.Close(), p.dev.Close())
	}
	return elapsed / time.Duration(t.Allocs), errors.Join(p.alloc.Close(), p.dev.Close())
}

// warm plays an event and keeps no books.
func (p *player) warm(e trace.Event) error {
	switch e.Kind {
	case trace.Alloc:
		b, err := p.alloc.Alloc(e.Bytes, p.stream(e.Stream))
		p.blocks[e.ID] = b
		if err != nil && !errors.Is(err, memory.ErrOutOfMemory) {
			return err
		}
		return nil
	case trace.Free:
		return p.alloc.Free(p.blocks[e.ID])
	case trace.Record:
		return p.alloc.RecordStream(p.blocks[e.ID], p.stream(e.Stream))
	case trace.Complete:
		p.dev.Complete(device.StreamID(e.Stream))
	case trace.Empty:
		return p.alloc.EmptyCache()
	}
	return nil
}
