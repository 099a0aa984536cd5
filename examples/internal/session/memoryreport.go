package session

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
)

// memoryReports are the forms of -memory-report, by the ends of files.
var memoryReports = map[string]func(*memreport.Report, io.Writer) error{
	".txt":  func(r *memreport.Report, w io.Writer) error { return r.WriteTable(w, 0) },
	".json": (*memreport.Report).WriteJSON,
	".svg":  (*memreport.Report).WriteSVG,
}

// beginReport records what memory is used for until the session ends, also with an error.
func (w *Watch) beginReport(s *Session, stderr io.Writer) error {
	if w.Report == "" {
		return nil
	}
	rec, err := memreport.Start(s.Device, memreport.WithAllocator(s.Alloc))
	if err != nil {
		return err
	}
	s.recording = rec
	s.atEnd = append(s.atEnd, func() error { return w.writeReport(rec.Stop(), stderr) })
	return nil
}

// Trains tells a report, if one is wanted, of a model and its optimizers, which are then told from other memory also if the program fails before it
// uses them.
func (s *Session) Trains(m nn.Module, opts ...memreport.Optimizer) error {
	if s.recording == nil {
		return nil
	}
	return s.recording.Add(memreport.WithModel(m), memreport.WithOptimizer(opts...))
}

func (w *Watch) writeReport(r *memreport.Report, stderr io.Writer) error {
	if w.Report == "-" {
		_, err := fmt.Fprintf(stderr, "\n%s", r)
		return err
	}
	f, err := os.Create(w.Report)
	if err != nil {
		return errors.Wrap(err, "-memory-report")
	}
	err = memoryReports[filepath.Ext(w.Report)](r, f)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return errors.Wrap(err, "-memory-report")
}
