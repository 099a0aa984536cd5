package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/memory"
)

// tour goes through its steps until one fails: err is that error, and the steps after it do nothing.
type tour struct {
	*session.Session
	alloc  *memory.Caching
	stream device.Stream // the default stream
	pace   time.Duration
	to     io.Writer
	pen    pen
	held   map[memory.Block]bool // to give back if the tour ends early
	err    error
}

// errNoTour: the environment asks for an allocator that has nothing to show.
var errNoTour = errors.New("the tour is one of the caching allocator, which the environment has turned off (CISTERN_NO_MEMORY_CACHING, or a backend in CISTERN_ALLOC_CONF)")

// program runs the tour. Whatever happens, it gives all device memory back, and says so if that fails.
func program(o options, stdout, stderr io.Writer) (err error) {
	dev, err := open(o.device)
	if err != nil {
		return err
	}
	s, err := o.watch.On(dev, stderr)
	if err != nil {
		return err
	}
	defer func() { err = s.Close(err) }()
	alloc, ok := s.Alloc.(*memory.Caching)
	if !ok {
		return errNoTour
	}
	t := &tour{Session: s, alloc: alloc, stream: s.Device.DefaultStream(), pace: o.pace, to: stdout, held: map[memory.Block]bool{}}
	t.pen = pen{colour: session.Coloured(stdout), names: map[device.Ptr]byte{}, order: map[device.Ptr]int{}}
	t.err = errors.Join(alloc.SetConfig(memory.Config{}), alloc.SetMemoryFraction(1)) // the pictures are those of the defaults
	defer t.giveBack()
	t.all()
	return t.err
}

// giveBack frees what an early end has left.
func (t *tour) giveBack() {
	for b := range t.held {
		t.err = errors.Join(t.err, t.alloc.Free(b))
	}
}

// chapter begins a part with a title and a few sentences.
func (t *tour) chapter(title, about string) {
	if t.err != nil {
		return
	}
	t.print("\n%s\n\n%s\n", t.pen.strong(title), wrapped(about, ""))
	t.pause()
}

// step makes calls that must succeed, shows which and what came of them, and says why. calls is Go code.
func (t *tour) step(calls, why string, do func() error) {
	if t.err != nil {
		return
	}
	if t.err = do(); t.err != nil {
		t.err = fmt.Errorf("%s: %w", strings.ReplaceAll(calls, "\n", "; "), t.err)
		return
	}
	t.show(calls, wrapped(why, "  "))
}

// fails makes a call that must end with an *OOMError of the kind, and shows it.
func (t *tour) fails(call, why string, kind error, do func() error) (oom *memory.OOMError) {
	if t.err != nil {
		return new(memory.OOMError)
	}
	err := do()
	if !errors.As(err, &oom) || !errors.Is(err, kind) {
		t.err = fmt.Errorf("%s: the error is %v, must be %v", call, err, kind)
		return new(memory.OOMError)
	}
	t.show(call, wrapped(why, "  ")+"\n"+t.pen.warning(wrapped(err.Error(), "    ")))
	return oom
}

// show prints a step, and gives the reader time.
func (t *tour) show(calls, text string) {
	s := t.alloc.Stats()
	if text = strings.TrimRight(text, " \n"); text != "" {
		text += "\n"
	}
	t.print("\n  %s\n%s%s", t.pen.code(strings.ReplaceAll(calls, "\n", "\n  ")), text, t.pen.draw(t.alloc.SnapshotState()))
	t.print("    allocated %s   reserved %s   driver allocations %d\n", device.FormatBytes(uint64(s.AllocatedBytes.All.Current)),
		device.FormatBytes(uint64(s.ReservedBytes.All.Current)), s.NumDeviceAlloc)
	t.pause()
}

func (t *tour) print(format string, args ...any) {
	if _, err := fmt.Fprintf(t.to, format, args...); err != nil && t.err == nil {
		t.err = err
	}
}

// pause waits, but not after Ctrl-C, which ends the tour.
func (t *tour) pause() {
	ctx, cancel := context.WithTimeout(t.Interrupt(), t.pace)
	defer cancel()
	<-ctx.Done()
	if t.err == nil && t.Interrupted() {
		t.err = session.ErrInterrupted
	}
}

// take allocates a block that the pictures call by a letter.
func (t *tour) take(name byte, from memory.Allocator, bytes uint64, s device.Stream) (memory.Block, error) {
	b, err := from.Alloc(bytes, s)
	if err == nil {
		t.pen.names[b.Ptr()] = name
		t.held[b] = true
		t.pen.see(t.alloc.SnapshotState())
	}
	return b, err
}

// free gives blocks back.
func (t *tour) free(blocks ...memory.Block) error {
	for _, b := range blocks {
		if err := t.alloc.Free(b); err != nil {
			return err
		}
		delete(t.held, b)
	}
	return nil
}

// wrapped breaks a text into lines of up to 78 characters that begin with the margin.
func wrapped(text, margin string) string {
	var lines []string
	line := margin
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 78 && line != margin {
			lines, line = append(lines, line), margin
		}
		if line != margin {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}
