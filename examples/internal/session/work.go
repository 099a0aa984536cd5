package session

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/cistern-ml/cistern/autograd/timeline"
)

// Work is what a program does on its device, and what it tells of it.
type Work struct {
	// Train does everything, and gives all memory back. After ErrInterrupted there is something to tell too.
	Train func(s *Session) error
	// Needs says what a device is for that only keeps the books, and so cannot be used; empty if it can.
	Needs string
	// Rows are those of the table.
	Rows func(row Row)
	// Report is the JSON, whose memory is filled in.
	Report any
	Memory *Memory
	// Outputs are the files that are written besides the JSON, by Write.
	Outputs []Output
	Write   func(stdout io.Writer) error
}

// Run opens the device, does the work, and tells of it. Files that cannot be written are an error before anything else.
func (f *Flags) Run(w Work, stdout io.Writer) error {
	if err := CheckOutputs(append(w.Outputs, Output{"json", f.JSON})...); err != nil {
		return err
	}
	s, err := f.Watch.Open(f.Device, 1, f.stderr)
	if err != nil {
		return err
	}
	if w.Needs != "" && !s.Computes() {
		return s.Close(fmt.Errorf("%s does not compute: there are no %s", s.Name, w.Needs))
	}
	err = s.BeginPlan(f.Plan)
	if err == nil {
		err = w.Train(s)
	}
	err = s.Close(err)
	if err != nil && !errors.Is(err, ErrInterrupted) {
		return err
	}
	*w.Memory = s.Memory
	s.Print(stdout, w.Rows)
	if w.Write != nil {
		err = errors.Join(err, w.Write(stdout))
	}
	return errors.Join(err, WriteJSON(f.JSON, w.Report))
}

// Loop calls step n times, and draws a bar on w beside what step says. Ctrl-C ends it after a step, or in one that
// asks for itself, with ErrInterrupted. A plan ends with it.
func (s *Session) Loop(w io.Writer, n int, step func() (says string, err error)) (err error) {
	defer func() {
		if ending := s.EndPlan(); err == nil {
			err = ending
		}
	}()
	to, end := Progress(w)
	defer end()
	bar := progressbar.NewOptions(n, progressbar.OptionSetWriter(to), progressbar.OptionShowCount(), progressbar.OptionSetWidth(30),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("steps"), progressbar.OptionThrottle(100*time.Millisecond))
	for i := range n {
		if err := s.Interruption(); err != nil {
			return err
		}
		end := timeline.Region("training step")
		says, err := step()
		end()
		if errors.Is(err, ErrInterrupted) { // a step of many batches has asked for itself
			return ErrInterrupted
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		s.Step()
		bar.Describe(says)
		_ = bar.Add(1) // a bar that cannot be drawn is no reason to stop
	}
	_ = bar.Finish()
	return nil
}
