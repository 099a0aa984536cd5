package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

// program is a recorded program.
type program struct {
	name string
	file string
	*replay.Program
}

// programs reads the folder's traces, each cut off after so many allocations. Without a folder there are none.
func programs(dir string, pairs int) ([]program, error) {
	if dir == "" {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.trace*"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no traces (*.trace, *.trace.gz) in %q", dir)
	}
	slices.Sort(files)
	var all []program
	for _, file := range files {
		t, err := trace.Open(file)
		if err != nil {
			return nil, err
		}
		p, err := replay.Compile(cutOff(t, pairs))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if p.Pairs == 0 {
			return nil, fmt.Errorf("%s allocates nothing", file)
		}
		name, _, _ := strings.Cut(filepath.Base(file), ".trace")
		all = append(all, program{name: name, file: file, Program: p})
	}
	return all, nil
}

// cutOff is the trace up to its nth allocation; 0 is all of it.
func cutOff(t *trace.Trace, pairs int) *trace.Trace {
	if pairs == 0 || t.Allocs <= pairs {
		return t
	}
	short := &trace.Trace{Name: t.Name, Header: t.Header, Allocs: pairs}
	for i, e := range t.Events {
		if e.Kind == trace.Alloc && e.ID == pairs {
			short.Events = t.Events[:i]
			break
		}
	}
	return short
}

// player runs a program on a place, again and again.
type player struct {
	program program
	place   *place
	streams []device.Stream
	blocks  []memory.Block
	ooms    int
}

// newPlayer makes the streams that the program needs; stream 0 is the device's default stream.
func newPlayer(p program, on *place) (*player, error) {
	y := &player{program: p, place: on, blocks: make([]memory.Block, p.Slots)}
	for _, number := range p.Streams {
		s := on.dev.DefaultStream()
		if number != 0 {
			var err error
			if s, err = on.dev.NewStream(); err != nil {
				return nil, errors.Join(err, y.close())
			}
		}
		y.streams = append(y.streams, s)
	}
	return y, nil
}

// play runs the program once: it frees what it allocates. A request without memory is counted, and its slot stays empty. The
// work that the trace completes was never put on the streams, so that is left out.
func (y *player) play() (err error) {
	for i := range y.program.Ops {
		op := &y.program.Ops[i]
		switch op.Kind {
		case trace.Alloc:
			y.blocks[op.Slot], err = y.place.alloc.Alloc(op.Bytes, y.streams[op.Stream])
			if errors.Is(err, memory.ErrOutOfMemory) {
				y.ooms++
				err = nil
			}
		case trace.Free:
			err = y.place.alloc.Free(y.blocks[op.Slot])
			y.blocks[op.Slot] = memory.Block{}
		case trace.Record:
			err = y.place.alloc.RecordStream(y.blocks[op.Slot], y.streams[op.Stream])
		case trace.Empty:
			err = y.place.alloc.EmptyCache()
		}
		if err != nil {
			return err
		}
	}
	return y.place.dev.Synchronize(context.Background())
}

// close frees what a failed pass left, and ends the streams.
func (y *player) close() error {
	var errs []error
	for _, b := range y.blocks {
		errs = append(errs, y.place.alloc.Free(b))
	}
	errs = append(errs, y.place.alloc.EmptyCache()) // it may wait for events on the streams
	for _, s := range y.streams {
		if s.ID() != 0 {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
