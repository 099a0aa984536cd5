package session

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memprof"
)

// Watch is how a program's memory is looked at while it runs, and afterwards. The zero value does not look.
type Watch struct {
	HTTP     string // address to serve memprof's pages at
	Report   string // file for a report of what memory was used for, or - for the standard error output
	Snapshot string // file for a snapshot with the history of the whole run, or up to the first error for want of memory
	Trace    string // file for a trace of steps, modules, operations and memory
}

// AddFlags adds -memory-http, -trace, -memory-report and -snapshot.
func (w *Watch) AddFlags(f *Checked) {
	f.Check(w.wrong)
	f.StringVar(&w.HTTP, "memory-http", "", "address to serve the state of memory at, such as :6060 (this machine alone) or 0.0.0.0:6060")
	f.Writes(w.Outputs)
	f.StringVar(&w.Trace, "trace", "", "file for a trace of steps, modules, operations and memory over time, which https://ui.perfetto.dev opens")
	f.StringVar(&w.Snapshot, "snapshot", "", "file for a snapshot of memory with its history: .pickle for PyTorch's viewer, .json, or .html, a page that draws itself")
	f.StringVar(&w.Report, "memory-report", "", "file for a report of where memory went, by module and operation: .txt, .json or .svg, or - to print it to the standard error output")
}

// Open is the function Open, with what is asked for from the first allocation on. It says on stderr where the pages are.
func (w *Watch) Open(name string, fraction float64, stderr io.Writer) (*Session, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	s, err := Open(name, fraction)
	if err != nil {
		return nil, err
	}
	if err := w.begin(s, stderr); err != nil {
		return nil, s.Close(err)
	}
	return s, nil
}

// check refuses what cannot be, and files that cannot be written.
func (w *Watch) check() error {
	if err := w.wrong(); err != nil {
		return err
	}
	return CheckOutputs(w.Outputs()...)
}

// Outputs are the files that are asked for.
func (w *Watch) Outputs() []Output {
	outputs := []Output{{"snapshot", w.Snapshot}, {"trace", w.Trace}}
	if w.Report != "-" {
		outputs = append(outputs, Output{"memory-report", w.Report})
	}
	return outputs
}

// Of is a Watch for one of several sessions of a program, by its name: the files have that at the end, as in report-float16.json.
func (w *Watch) Of(name string) *Watch {
	with := func(file string) string {
		if file == "" || file == "-" {
			return file
		}
		ext := filepath.Ext(file)
		return strings.TrimSuffix(file, ext) + "-" + name + ext
	}
	return &Watch{HTTP: w.HTTP, Report: with(w.Report), Snapshot: with(w.Snapshot), Trace: with(w.Trace)}
}

// wrong refuses what can be no file or address for its purpose.
func (w *Watch) wrong() error {
	if ext := filepath.Ext(w.Snapshot); w.Snapshot != "" && ext != ".pickle" && ext != ".json" && ext != ".html" {
		return fmt.Errorf("-snapshot is %q, must end in .pickle, .json or .html", w.Snapshot)
	}
	if ext := filepath.Ext(w.Report); w.Report != "" && w.Report != "-" && memoryReports[ext] == nil {
		return fmt.Errorf("-memory-report is %q, must end in .txt, .json or .svg, or be - for the standard error output", w.Report)
	}
	if w.HTTP == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(w.HTTP)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("-memory-http is %q: %w", w.HTTP, err)
	}
	return nil
}

func (w *Watch) begin(s *Session, stderr io.Writer) error {
	if w.Trace != "" {
		if err := s.record(w.Trace); err != nil {
			return err
		}
	}
	if err := w.beginReport(s, stderr); err != nil {
		return err
	}
	if w.HTTP == "" && w.Snapshot == "" {
		return nil
	}
	// An allocator without a cache has no history, and the pages show what it has.
	if _, ok := s.Alloc.(interface{ HistoryEnabled() bool }); ok || w.Snapshot != "" {
		if err := memory.RecordHistory(s.Device, memory.HistoryOptions{}); err != nil {
			return err
		}
	}
	if w.Snapshot != "" {
		w.snapshot(s)
	}
	if w.HTTP == "" {
		return nil
	}
	return w.serve(s, stderr)
}

// snapshot writes the file when memory runs out for the first time, as it is then, or else at the end.
func (w *Watch) snapshot(s *Session) {
	var written atomic.Bool
	write := func() error {
		if written.Swap(true) {
			return nil
		}
		return memory.DumpSnapshot(s.Device, w.Snapshot)
	}
	if c, ok := s.Alloc.(interface{ OnOOM(func(*memory.OOMError)) }); ok {
		c.OnOOM(func(*memory.OOMError) {
			if err := write(); err != nil {
				written.Store(false) // the end tells of it
			}
		})
	}
	s.atEnd = append(s.atEnd, write)
}

// serve serves the pages until the session ends. Without a host in the address that is for this machine alone.
func (w *Watch) serve(s *Session, stderr io.Writer) error {
	host, port, err := net.SplitHostPort(w.HTTP)
	if err != nil {
		return fmt.Errorf("-memory-http is %q: %w", w.HTTP, err)
	}
	if host == "" {
		host = "localhost"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("-memory-http: %w", err)
	}
	server := &http.Server{Handler: memprof.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // ends with the server
	s.atEnd = append(s.atEnd, func() error { return server.Shutdown(context.Background()) })
	_, err = fmt.Fprintf(stderr, "memory: http://%s/\n", l.Addr())
	return err
}
