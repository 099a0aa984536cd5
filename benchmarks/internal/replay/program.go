package replay

import (
	"errors"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

// Program is a trace in the form that timing loops want: small, without maps, ids replaced by slots that are used again, so
// that the loop's own memory stays in the processor's cache. It frees what it allocates, so it can be run again and again.
type Program struct {
	Ops     []Op
	Slots   int      // an array of so many blocks holds all that are alive
	Streams []uint64 // the trace's numbers of the streams; operations have indices into it
	Pairs   int      // allocations, each with its free
	Steps   []int    // those from one mark to the next
}

// Op is one operation.
type Op struct {
	Bytes  uint64 // of an allocation
	Slot   int32  // of the block: Alloc, Free, Record
	Stream uint16 // index into Streams: Alloc, Record, Complete
	Kind   trace.Kind
}

// Compile makes a Program of a trace. Frees of the blocks that the trace leaves alive follow at the end. More than 65,536
// streams, or blocks alive than an int32 counts, are an error.
func Compile(t *trace.Trace) (*Program, error) {
	c := compiler{program: &Program{Pairs: t.Allocs}, streams: map[uint64]uint16{}, slot: make([]int32, t.Allocs)}
	for _, e := range t.Events {
		if err := c.add(e); err != nil {
			return nil, err
		}
	}
	for _, slot := range c.slot {
		if slot >= 0 {
			c.program.Ops = append(c.program.Ops, Op{Kind: trace.Free, Slot: slot})
		}
	}
	return c.program, nil
}

type compiler struct {
	program *Program
	streams map[uint64]uint16
	slot    []int32 // by id; -1 once freed
	spare   []int32
}

func (c *compiler) add(e trace.Event) error {
	op := Op{Kind: e.Kind, Bytes: e.Bytes}
	switch e.Kind {
	case trace.Mark:
		c.program.Steps = append(c.program.Steps, 0)
	case trace.Alloc:
		if n := len(c.program.Steps); n > 0 {
			c.program.Steps[n-1]++
		}
		c.slot[e.ID] = c.takeSlot()
		op.Slot = c.slot[e.ID]
	case trace.Free:
		op.Slot = c.slot[e.ID]
		c.spare = append(c.spare, op.Slot)
		c.slot[e.ID] = -1
	case trace.Record:
		op.Slot = c.slot[e.ID]
	}
	if e.Kind == trace.Alloc || e.Kind == trace.Record || e.Kind == trace.Complete {
		var err error
		if op.Stream, err = c.stream(e.Stream); err != nil {
			return err
		}
	}
	c.program.Ops = append(c.program.Ops, op)
	return nil
}

func (c *compiler) takeSlot() int32 {
	if n := len(c.spare); n > 0 {
		slot := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return slot
	}
	c.program.Slots++
	return int32(c.program.Slots - 1)
}

func (c *compiler) stream(number uint64) (uint16, error) {
	if i, ok := c.streams[number]; ok {
		return i, nil
	}
	n := len(c.program.Streams)
	if n > 1<<16-1 {
		return 0, errors.New("a trace of more than 65,536 streams cannot be timed")
	}
	c.program.Streams = append(c.program.Streams, number)
	c.streams[number] = uint16(n)
	return uint16(n), nil
}

// Time runs t twice on one device and returns the nanoseconds of the second, warm pass divided by its allocations, and those of the median
// step of the steady state, 0 if there is none: in some of the others a plan is waited for. Nothing is sampled, hashed or logged, and the trace is read from a Program.
func Time(t *trace.Trace, o Options) (nsPerPair, steady float64, err error) {
	program, err := Compile(t)
	if err != nil || program.Pairs == 0 {
		return 0, 0, err
	}
	m, err := o.open(&books{quiet: true})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	a, err := o.allocator(m)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	streams := make([]device.Stream, len(program.Streams))
	for i, number := range program.Streams {
		if streams[i], err = m.stream(number); err != nil {
			return 0, 0, err
		}
	}
	blocks := make([]memory.Block, program.Slots)
	plan, err := o.plan(a)
	if err != nil {
		return 0, 0, err
	}
	marks := make([]time.Time, len(program.Steps)+1)
	if err := program.run(a, plan, m, streams, blocks, marks); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := program.run(a, plan, m, streams, blocks, marks); err != nil {
		return 0, 0, err
	}
	now := time.Now()
	marks[len(program.Steps)] = now
	return float64(now.Sub(start).Nanoseconds()) / float64(program.Pairs), program.median(marks), nil
}

// median is the nanoseconds per allocation of the median step, from the mark on where the steady state begins. Each step has a time when it began, and the last one another
// when it ended.
func (p *Program) median(marks []time.Time) float64 {
	var steps []float64
	for i, pairs := range p.Steps {
		if i+1 >= steadyMark && pairs > 0 {
			steps = append(steps, float64(marks[i+1].Sub(marks[i]).Nanoseconds())/float64(pairs))
		}
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	return (steps[(len(steps)-1)/2] + steps[len(steps)/2]) / 2
}

// run plays the program once; marks begin the steps of a plan, if there is one, and the times of them are written down. An allocation without memory leaves its slot empty, and an empty slot may be freed.
func (p *Program) run(a memory.Allocator, plan *memory.Plan, m machine, streams []device.Stream, blocks []memory.Block, marks []time.Time) (err error) {
	step := 0
	for i := range p.Ops {
		op := &p.Ops[i]
		switch op.Kind {
		case trace.Alloc:
			blocks[op.Slot], err = a.Alloc(op.Bytes, streams[op.Stream])
			if errors.Is(err, memory.ErrOutOfMemory) {
				err = nil
			}
		case trace.Free:
			err = a.Free(blocks[op.Slot])
		case trace.Record:
			err = a.RecordStream(blocks[op.Slot], streams[op.Stream])
		case trace.Complete:
			err = m.complete(p.Streams[op.Stream])
		case trace.Empty:
			err = a.EmptyCache()
		case trace.Mark:
			marks[step] = time.Now()
			step++
			if plan != nil {
				err = plan.Step()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
