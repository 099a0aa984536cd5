package memprof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/cistern-ml/cistern/memory"
)

// What the page gets, and how often that is made anew, however many ask.
const (
	stateAge   = 250 * time.Millisecond
	usageAge   = 2 * time.Second // drivers and management libraries are slower than allocators
	maxSamples = 3600            // an hour, if a page is open that long
	maxBlocks  = 16_384          // to be drawn on their own: more than a screen has room for
)

// watched is what is kept for a device that a page looks at.
type watched struct {
	allocator memory.Allocator // another one of the same device begins anew
	made      time.Time
	state     []byte
	samples   [][4]int64 // microseconds since 1970, and bytes: allocated, active, reserved
	usage     *memory.Usage
	usageAt   time.Time
	stop      func() // ends the recording that a page has begun; nil if there is none
	timer     *time.Timer
}

// state is what the page draws. Statistics and blocks are not of the same moment.
type state struct {
	Devices   []string        `json:"devices"`
	Device    string          `json:"device"`
	Allocator string          `json:"allocator"`
	Recording bool            `json:"recording"` // history, by whomever
	Ours      bool            `json:"ours"`      // a page has begun it
	Stats     *memory.Stats   `json:"stats"`
	Usage     *memory.Usage   `json:"usage"` // null if the device does not tell
	Samples   [][4]int64      `json:"samples"`
	Summary   string          `json:"summary"`
	Drawing   json.RawMessage `json:"drawing"` // null without a caching allocator
}

// pieced is an allocator that can be looked at often: memory.Caching.
type pieced interface {
	SnapshotInPieces() memory.Snapshot
}

func (h *handler) state(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	if len(memory.Allocators()) == 0 && r.URL.Query().Get("device") == "" {
		return json.NewEncoder(w).Encode(state{Devices: []string{}})
	}
	a, err := allocator(r)
	if err != nil {
		return err
	}
	text, err := h.stateOf(a)
	if err != nil {
		return err
	}
	_, err = newPatient(w).Write(text)
	return err
}

// stateOf returns the state of an allocator, one made just now for somebody else if there is one.
func (h *handler) stateOf(a memory.Allocator) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.watch(a)
	now := time.Now()
	if o.state != nil && now.Sub(o.made) < stateAge {
		return o.state, nil
	}
	s, err := o.newState(now)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	o.made, o.state = now, text
	return text, nil
}

// watch returns what is kept for an allocator's device, and forgets devices that have none any more. Caller holds mu.
func (h *handler) watch(a memory.Allocator) *watched {
	alive := map[memory.Allocator]bool{}
	for _, b := range memory.Allocators() {
		alive[b] = true
	}
	for id, o := range h.watched {
		if !alive[o.allocator] {
			o.endRecording()
			delete(h.watched, id)
		}
	}
	id := a.Device().String()
	if h.watched[id] == nil {
		h.watched[id] = &watched{allocator: a}
	}
	return h.watched[id]
}

func (o *watched) newState(now time.Time) (*state, error) {
	a := o.allocator
	stats := a.Stats()
	o.sample(now, &stats)
	s := &state{Device: a.Device().String(), Allocator: fmt.Sprint(a), Ours: o.stop != nil, Stats: &stats, Usage: o.usageOf(now),
		Samples: o.samples, Summary: stats.Summary(a.Device(), false)}
	for _, b := range memory.Allocators() {
		s.Devices = append(s.Devices, b.Device().String())
	}
	if c, ok := a.(interface{ HistoryEnabled() bool }); ok {
		s.Recording = c.HistoryEnabled()
	}
	if c, ok := a.(pieced); ok {
		var b bytes.Buffer
		if err := c.SnapshotInPieces().WriteDrawing(&b, maxBlocks); err != nil {
			return nil, err
		}
		s.Drawing = b.Bytes()
	}
	return s, nil
}

// sample keeps the newest samples. When there are too many, every other one of the older half goes.
func (o *watched) sample(now time.Time, s *memory.Stats) {
	o.samples = append(o.samples, [4]int64{now.UnixMicro(), s.AllocatedBytes.All.Current, s.ActiveBytes.All.Current, s.ReservedBytes.All.Current})
	if len(o.samples) <= maxSamples {
		return
	}
	thinned := o.samples[:0]
	for i, sample := range o.samples {
		if i >= maxSamples/2 || i%2 == 0 {
			thinned = append(thinned, sample)
		}
	}
	o.samples = thinned
}

// usageOf divides the device, if it can tell.
func (o *watched) usageOf(now time.Time) *memory.Usage {
	c, ok := o.allocator.(interface{ Usage() (memory.Usage, error) })
	if !ok || now.Sub(o.usageAt) < usageAge {
		return o.usage
	}
	o.usage, o.usageAt = nil, now
	if u, err := c.Usage(); err == nil && u.Total > 0 {
		o.usage = &u
	}
	return o.usage
}

// record begins or ends a recording for the pages.
func (h *handler) record(w http.ResponseWriter, r *http.Request) error {
	a, err := allocator(r)
	if err != nil {
		return err
	}
	c, ok := a.(historian)
	if !ok {
		return &httpError{http.StatusNotFound, fmt.Sprintf("%s has no caching allocator", a.Device())}
	}
	on := r.URL.Query().Get("on")
	if on != "0" && on != "1" {
		return &httpError{http.StatusBadRequest, fmt.Sprintf("on=%.20q: want 0 or 1", on)}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.watch(a)
	o.state = nil // it tells who records
	if on == "0" {
		o.endRecording()
	} else if o.stop == nil {
		if o.stop, err = c.ShareHistory(memory.HistoryOptions{}); err != nil {
			return err
		}
		h.endLater(o)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// endLater ends the recording if no page does. Caller holds mu.
func (h *handler) endLater(o *watched) {
	var timer *time.Timer
	timer = time.AfterFunc(maxSeconds*time.Second, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if o.timer == timer { // and not that of a later recording
			o.endRecording()
		}
	})
	o.timer = timer
}

// endRecording ends what a page has begun, if anything. Caller holds mu.
func (o *watched) endRecording() {
	if o.stop != nil {
		o.timer.Stop()
		o.stop()
		o.stop, o.state = nil, nil
	}
}
