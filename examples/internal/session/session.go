// Package session has what the example programs share besides their models: opening a device with its allocator, giving
// everything back at the end, and the numbers of memory that each program reports.
package session

import (
	"context"
	"encoding/json"
	stderrors "errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/internal/stepplan"
	"github.com/cistern-ml/cistern/memory"
)

// Session is a device that a program works on, and the numbers of its memory.
type Session struct {
	Device device.Device
	Alloc  memory.Allocator
	Memory

	opened    bool            // by Open
	interrupt context.Context // done after Ctrl-C
	restore   func()          // what Ctrl-C does without us
	atEnd     []func() error  // of Watch
	recording *memreport.Recording
	plan      *memory.Plan // nil for none
}

// Memory is what a program's work came to in memory, in bytes and in calls of the driver. It is a part of the programs' JSON.
type Memory struct {
	Name            string `json:"device"`
	Steps           int    `json:"steps"`
	PeakAllocated   int64  `json:"peak_allocated_bytes"`
	PeakReserved    int64  `json:"peak_reserved_bytes"`
	DriverMallocs   int64  `json:"driver_mallocs"`
	MallocsAfterTwo int64  `json:"driver_mallocs_after_step_2"`
	AfterRelease    uint64 `json:"allocated_after_release_bytes"` // after training, when all graphs are released
	Leaf            uint64 `json:"leaf_bytes"`                    // what parameters and optimizer state hold then
	AtEnd           uint64 `json:"allocated_at_end_bytes"`        // when the model is released too

	Plan *stepplan.Figures `json:"plan,omitempty"` // with -plan

	summary string
}

// Open opens a device by its name (host, sim:80GiB, cuda:0), of whose memory the program may reserve the given fraction.
func Open(name string, fraction float64) (*Session, error) {
	dev, err := device.Open(name)
	if err != nil {
		return nil, err
	}
	s, err := On(dev, fraction)
	if err != nil {
		return nil, stderrors.Join(err, dev.Close())
	}
	s.opened = true
	return s, nil
}

// On is Open for a device that is open, and stays open.
func On(dev device.Device, fraction float64) (*Session, error) {
	s := &Session{Device: dev}
	s.interrupt, s.restore = command.Interrupts()
	s.Name = dev.ID().String()
	var err error
	if s.Alloc, err = memory.For(dev); err == nil && fraction != 1 { // 1 is no limit, but for that of the environment's settings
		err = memory.SetFraction(dev, fraction) // an allocator without limits refuses
	}
	if err != nil {
		return nil, s.Close(err)
	}
	return s, nil
}

// Close gives all memory back, and the device if Open opened it. It returns err, the program's error, together with those of
// closing: blocks that are still in use are one. That a lost device can close nothing is not told again.
func (s *Session) Close(err error) error {
	s.restore()
	closing := s.EndPlan()
	for _, f := range s.atEnd {
		closing = stderrors.Join(closing, f())
	}
	closing = stderrors.Join(closing, memory.Drop(s.Device))
	if s.opened {
		closing = stderrors.Join(closing, s.Device.Close())
	}
	if err != nil && stderrors.Is(closing, device.ErrUnavailable) {
		return err
	}
	return stderrors.Join(err, closing)
}

// Computes reports whether the device computes; a simulated one only keeps the books.
func (s *Session) Computes() bool { return s.Device.ID().Kind != device.Sim }

// Allocated is what the allocator says is in use.
func (s *Session) Allocated() uint64 { return uint64(s.Alloc.Stats().AllocatedBytes.All.Current) }

// Step notes that a training step is over.
func (s *Session) Step() {
	s.Steps++
	if s.Steps <= 2 {
		s.MallocsAfterTwo = s.Alloc.Stats().NumDeviceAlloc
	}
}

// State is an optimizer, as far as its memory goes.
type State interface{ StateBytes() uint64 }

// Rates are the steps per second of all steps, and of the second half of them, when kernels are loaded and memory is there; took is
// the time from the start to the end of each.
func Rates(took []time.Duration) (all, late float64) {
	n := len(took)
	if n == 0 {
		return 0, 0
	}
	rest := took[n-1]
	if half := n / 2; half > 0 {
		rest -= took[half-1]
	}
	return float64(n) / took[n-1].Seconds(), float64(n-n/2) / rest.Seconds()
}

// Trained notes what is in use when training is over and all graphs are released, what parameters, gradients and optimizer
// state hold by their own account, rounded as the allocator rounds, and the peaks so far.
func (s *Session) Trained(params []*autograd.Parameter, opts ...State) {
	s.AfterRelease = s.Allocated()
	s.Leaf = 0
	for _, opt := range opts {
		s.Leaf += opt.StateBytes()
	}
	for _, p := range params {
		s.Leaf += p.Tensor().StorageBytes()
		if g := p.Grad(); g != nil {
			s.Leaf += g.StorageBytes()
		}
	}
	stats := s.Alloc.Stats()
	s.PeakAllocated, s.PeakReserved = stats.AllocatedBytes.All.Peak, stats.ReservedBytes.All.Peak
	s.DriverMallocs = stats.NumDeviceAlloc
	s.summary = memory.Summary(s.Device)
}

// Released notes what is in use when the model is released too.
func (s *Session) Released() { s.AtEnd = s.Allocated() }

// Row adds a line to a table: what it is, and its value.
type Row func(name, format string, args ...any)

// Print writes a table of the program's own rows, those of the memory, and the allocator's summary.
func (s *Session) Print(w io.Writer, own func(row Row)) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(table, name+"\t"+format+"\n", args...) }
	fmt.Fprintln(table)
	row("device", "%s", s.Name)
	own(row)
	row("peak allocated", "%s", Bytes(uint64(s.PeakAllocated)))
	row("peak reserved", "%s", Bytes(uint64(s.PeakReserved)))
	row("driver allocations", "%d, of which %d in the first two steps", s.DriverMallocs, s.MallocsAfterTwo)
	row("allocated after training", "%s", Bytes(s.AfterRelease))
	row("parameters, optimizer state", "%s", Bytes(s.Leaf))
	row("allocated at the end", "%s", Bytes(s.AtEnd))
	if s.Plan != nil {
		row("plan", "%s", s.Plan)
	}
	table.Flush()
	fmt.Fprintf(w, "\n%s", s.summary)
}

// Bytes writes a size for people and exactly.
func Bytes(n uint64) string { return fmt.Sprintf("%s (%d bytes)", device.FormatBytes(n), n) }

// WriteJSON writes the numbers of a program to a file, unless the file has no name.
func WriteJSON(file string, figures any) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return errors.WithStack(err)
	}
	return errors.Wrap(os.WriteFile(file, append(text, '\n'), 0o666), "writing the figures")
}
