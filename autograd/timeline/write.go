package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// event is an object of the Chrome trace event format.
type event struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Time     float64        `json:"ts"`            // microseconds
	Duration *float64       `json:"dur,omitempty"` // likewise
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// program is the process of the regions; devices come after it.
const program = 1

// WriteTrace writes what was recorded so far as JSON in the Chrome trace event format. The errors are those of w, and a *tensor.ValueError if
// there is none, or no recording.
func (t *Timeline) WriteTrace(w io.Writer) error {
	if why := isnil.Why("writer", w); why != "" {
		return &tensor.ValueError{Op: "timeline.WriteTrace", Detail: why}
	}
	if t == nil || t.start.IsZero() {
		return &tensor.ValueError{Op: "timeline.WriteTrace", Detail: "the timeline is nil or a zero value: Start makes one"}
	}
	t.mu.Lock()
	spans, samples, dropped := slices.Concat(t.spans, t.unended()), slices.Clone(t.memory), t.dropped
	t.mu.Unlock()
	out := bufio.NewWriter(w)
	o := &writer{w: out, json: json.NewEncoder(out)}
	o.text(`{"displayTimeUnit":"ms","otherData":{"dropped":` + fmt.Sprint(dropped) + `},"traceEvents":[` + "\n")
	o.all(spans, samples)
	o.profiled(t)
	o.text("]}\n")
	if o.err != nil {
		return o.err
	}
	return out.Flush()
}

// writer writes events, one to a line, and keeps the first error.
type writer struct {
	w     io.Writer
	json  *json.Encoder
	err   error
	count int
}

func (o *writer) text(s string) {
	if o.err == nil {
		_, o.err = io.WriteString(o.w, s)
	}
}

func (o *writer) event(e any) {
	if o.count > 0 {
		o.text(",")
	}
	o.count++
	if o.err == nil {
		o.err = o.json.Encode(e)
	}
}

// named gives a process, or a row in one, a name and a place. Row 0 is the process.
func (o *writer) named(process, row int, name string) {
	what, place := "thread", row
	if row == 0 {
		what, place = "process", process
	}
	o.event(event{Name: what + "_name", Phase: "M", Process: process, Thread: row, Args: map[string]any{"name": name}})
	o.event(event{Name: what + "_sort_index", Phase: "M", Process: process, Thread: row, Args: map[string]any{"sort_index": place}})
}

// all writes the rows of the program and of each device, and the counters.
func (o *writer) all(spans []span, samples []sample) {
	o.named(program, 0, "program")
	processes := map[device.ID]int{{}: program}
	for _, id := range devicesOf(spans, samples) {
		processes[id] = program + len(processes)
		o.named(processes[id], 0, id.String())
	}
	type track struct {
		id     device.ID
		stream device.StreamID
	}
	tracks := map[track][]span{}
	for _, s := range spans {
		at := track{s.device, s.stream}
		tracks[at] = append(tracks[at], s)
	}
	order := make([]track, 0, len(tracks))
	for at := range tracks {
		order = append(order, at)
	}
	slices.SortFunc(order, func(a, b track) int {
		return cmp.Or(compareIDs(a.id, b.id), cmp.Compare(a.stream, b.stream))
	})
	rows := map[int]int{} // of a process, so far
	for _, at := range order {
		process := processes[at.id]
		title := fmt.Sprintf("stream %d", at.stream)
		switch {
		case process == program:
			title = "regions"
		case at.id.Kind == device.CUDA:
			title += ": calls" // the work runs later
		}
		rows[process] += o.track(process, rows[process]+1, title, tracks[at])
	}
	for _, s := range samples {
		o.counter(processes[s.device], "allocated", s.at, s.allocated)
		o.counter(processes[s.device], "reserved", s.at, s.reserved)
	}
}

// track writes spans that belong together in as many rows as it takes to have none overlap without being nested, and returns that number.
func (o *writer) track(process, first int, title string, spans []span) (rows int) {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.took, a.took)) })
	var open [][]time.Duration // of each row, the ends of the spans that are around, the outermost first
	for _, s := range spans {
		row := 0
		for ; row < len(open); row++ {
			ends := open[row]
			for len(ends) > 0 && ends[len(ends)-1] <= s.begin {
				ends = ends[:len(ends)-1]
			}
			open[row] = ends
			if len(ends) == 0 || s.begin+s.took <= ends[len(ends)-1] {
				break
			}
		}
		if row == len(open) {
			open = append(open, nil)
			name := title
			if row > 0 {
				name = fmt.Sprintf("%s (%d)", title, row+1)
			}
			o.named(process, first+row, name)
		}
		open[row] = append(open[row], s.begin+s.took)
		took := microseconds(s.took)
		e := event{Name: s.name, Category: s.category, Phase: "X", Time: microseconds(s.begin), Duration: &took, Process: process, Thread: first + row}
		if s.open {
			e.Args = map[string]any{"open": true}
		}
		o.event(e)
	}
	return len(open)
}

func (o *writer) counter(process int, name string, at time.Duration, bytes int64) {
	o.event(event{Name: name + " memory", Category: "memory", Phase: "C", Time: microseconds(at), Process: process, Args: map[string]any{"bytes": bytes}})
}

// devicesOf are the devices that something ran on or that have memory, in order.
func devicesOf(spans []span, samples []sample) (ids []device.ID) {
	known := map[device.ID]bool{{}: true}
	add := func(id device.ID) {
		if !known[id] {
			known[id] = true
			ids = append(ids, id)
		}
	}
	for _, s := range spans {
		add(s.device)
	}
	for _, s := range samples {
		add(s.device)
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

func compareIDs(a, b device.ID) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Index, b.Index))
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
