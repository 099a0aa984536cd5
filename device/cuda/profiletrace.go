package cuda

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/device"
)

// traceEvent is an object of the Chrome trace event format.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Time     *float64       `json:"ts,omitempty"` // microseconds
	Duration *float64       `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// traceWriter writes events as JSON, one to a line.
type traceWriter struct {
	w     *bufio.Writer
	json  *json.Encoder // ends each value with a new line
	err   error
	count int
}

// WriteTrace writes the operations one by one in the Chrome trace event format, which chrome://tracing and https://ui.perfetto.dev
// open. The device is a process there. Each of its streams has two rows: what the device did, and the calls that enqueued it, so
// that gaps in the one can be compared with the other. Times are since the driver was opened. Errors are those of w.
func (p *Profile) WriteTrace(w io.Writer) error {
	if err := p.writable("Profile.WriteTrace", w); err != nil {
		return err
	}
	return writeTrace(w, []*Profile{p})
}

// Epoch is the time 0 of WriteTrace, for those who put its events beside others. It is zero for no profile.
func (p *Profile) Epoch() time.Time {
	if p.absent() {
		return time.Time{}
	}
	return p.device.system.profiles.epoch
}

// writeTrace writes a trace of several devices.
func writeTrace(w io.Writer, profiles []*Profile) error {
	out := bufio.NewWriter(w)
	t := &traceWriter{w: out, json: json.NewEncoder(out)}
	t.json.SetEscapeHTML(false) // shapes are in angle brackets
	t.text(`{"displayTimeUnit":"ns","traceEvents":[` + "\n")
	for _, p := range profiles {
		p.writeEvents(t)
	}
	t.text("]}\n")
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

func (t *traceWriter) text(s string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(s)
	}
}

func (t *traceWriter) event(e *traceEvent) {
	if t.count > 0 {
		t.text(",")
	}
	t.count++
	if t.err == nil {
		t.err = t.json.Encode(e)
	}
}

// named gives a process (thread 0) or thread a name and a place.
func (t *traceWriter) named(process, thread int, name string) {
	what := "thread"
	place := thread
	if thread == 0 {
		what, place = "process", process
	}
	t.event(&traceEvent{Name: what + "_name", Phase: "M", Process: process, Thread: thread, Args: map[string]any{"name": name}})
	t.event(&traceEvent{Name: what + "_sort_index", Phase: "M", Process: process, Thread: thread, Args: map[string]any{"sort_index": place}})
}

// Rows of a stream in a trace. None has number 0, which viewers take for the process itself.
func workRow(s device.StreamID) int { return 2*int(s) + 1 }
func callRow(s device.StreamID) int { return 2*int(s) + 2 }

// writeEvents writes the device's rows.
func (p *Profile) writeEvents(t *traceWriter) {
	process := p.device.id.Index + 1
	p.mu.Lock()
	// Written without the lock, since a trace takes seconds and operations go on being added: spans are only ever appended to.
	spans := p.spans[:len(p.spans):len(p.spans)] // those that are there stay as they are
	var ids []device.StreamID
	for id := range p.streams {
		ids = append(ids, id)
	}
	p.mu.Unlock()
	slices.Sort(ids)
	t.named(process, 0, fmt.Sprintf("%s, %s", p.device.id, p.device.properties.Name))
	for _, id := range ids {
		t.named(process, workRow(id), fmt.Sprintf("stream %d", id))
		t.named(process, callRow(id), fmt.Sprintf("stream %d: calls", id))
	}
	for i := range spans {
		s := &spans[i]
		o := &s.operation.Operation
		t.span(process, workRow(s.stream), o.label(), o.Kind.String(), s.begin, s.took, o.arguments(s, i))
		t.span(process, callRow(s.stream), o.label(), "call", s.called, s.returned-s.called, map[string]any{"operation": i})
	}
}

func (t *traceWriter) span(process, thread int, name, category string, begin, took time.Duration, args map[string]any) {
	ts, dur := microseconds(begin), microseconds(took)
	t.event(&traceEvent{Name: name, Category: category, Phase: "X", Time: &ts, Duration: &dur, Process: process, Thread: thread, Args: args})
}

// arguments are what viewers show of an operation when it is chosen. operation has the same number in the row of calls.
func (o *Operation) arguments(s *span, operation int) map[string]any {
	args := map[string]any{"operation": operation}
	if shape := o.Shape(); shape != "" {
		args["shape"] = shape
	}
	if rate := o.Kind.rate(o.work(), s.took); rate != "" {
		args["rate"] = rate
	}
	if o.Kind == KernelOperation {
		args["blocks"] = blocksOf(o.Launch.Grid)
		args["threads"] = blocksOf(o.Launch.Block)
	}
	return args
}

// blocksOf is the product of the dimensions.
func blocksOf(d device.Dim3) uint64 {
	return uint64(max(d.X, 1)) * uint64(max(d.Y, 1)) * uint64(max(d.Z, 1))
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
