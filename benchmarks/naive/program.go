package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
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
		p, err := open(file, pairs)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// open reads a trace.
func open(file string, pairs int) (program, error) {
	t, err := trace.Open(file)
	if err != nil {
		return program{}, err
	}
	p, err := replay.Compile(cutOff(t, pairs))
	if err != nil {
		return program{}, fmt.Errorf("%s: %w", file, err)
	}
	if p.Pairs == 0 {
		return program{}, fmt.Errorf("%s allocates nothing", file)
	}
	name, _, _ := strings.Cut(filepath.Base(file), ".trace")
	return program{name: name, file: file, Program: p}, nil
}

// singlePairs is how many pairs a program of one block has at most.
const singlePairs = 1000

// singles are programs that allocate and free one block of a size again and again. PyTorch reads them too, so they are files of dir.
func singles(dir string, sizes []uint64, pairs int) (all []program, err error) {
	n := singlePairs
	if pairs > 0 {
		n = min(n, pairs)
	}
	for _, size := range sizes {
		t := &trace.Trace{Allocs: n}
		for id := range n {
			t.Events = append(t.Events, trace.Event{Kind: trace.Alloc, ID: id, Bytes: size}, trace.Event{Kind: trace.Free, ID: id})
		}
		var text bytes.Buffer
		if err := t.Write(&text); err != nil {
			return nil, err
		}
		file := filepath.Join(dir, "single "+device.FormatBytes(size)+".trace")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			return nil, err
		}
		p, err := open(file, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
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
// work that the trace completes was never enqueued on the streams, so that is left out.
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
