package memprof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
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
	unwatched  = 5 * time.Second // without a sample: no page was open, for those ask once a second
)

// watched is what is kept for a device that a page looks at.
type watched struct {
	allocator memory.Allocator // another one of the same device begins anew
	made      time.Time
	state     []byte
	samples   []look
	sampled   time.Time // when the last one was taken, which may be left out of samples by now
	usage     *memory.Usage
	limit     int64
	usageAt   time.Time
	stop      func() // ends the recording that a page has begun; nil if there is none
	timer     *time.Timer
}

// look is microseconds since 1970, bytes (allocated, active, reserved), and 1 if between the sample before and this one nobody looked, else 0.
type look [5]int64

// state is what the page draws. Statistics and blocks are not of the same moment.
type state struct {
	Devices   []string        `json:"devices"`
	Device    string          `json:"device"`
	Allocator string          `json:"allocator"`
	Recording bool            `json:"recording"` // history, by whomever
	Ours      bool            `json:"ours"`      // a page has begun it
	Stats     *memory.Stats   `json:"stats"`
	Usage     *memory.Usage   `json:"usage"` // null if the device does not tell
	Limit     int64           `json:"limit"` // of the bytes that the allocator may reserve, 0 for none
	Samples   []look          `json:"samples"`
	Summary   string          `json:"summary"`
	Drawing   json.RawMessage `json:"drawing"` // null without a caching allocator
}

// pieced is an allocator that can be looked at often: memory.Caching.
type pieced interface {
	SnapshotInPieces() memory.Snapshot
}

func (h *handler) state(w http.ResponseWriter, r *http.Request) error {
	text, err := h.stateFor(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = newPatient(w).Write(text)
	return err
}

// stateFor returns the state that a request is about.
func (h *handler) stateFor(r *http.Request) ([]byte, error) {
	if len(memory.Allocators()) == 0 && r.URL.Query().Get("device") == "" {
		return json.Marshal(state{Devices: []string{}})
	}
	a, err := allocator(r)
	if err != nil {
		return nil, err
	}
	return h.stateOf(a)
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
	s := &state{Device: a.Device().String(), Allocator: fmt.Sprint(a), Ours: o.stop != nil, Stats: &stats, Usage: o.usageOf(now), Limit: o.limit,
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
	one := look{now.UnixMicro(), s.AllocatedBytes.All.Current, s.ActiveBytes.All.Current, s.ReservedBytes.All.Current, 0}
	if len(o.samples) > 0 && now.Sub(o.sampled) > unwatched {
		one[4] = 1
	}
	o.samples, o.sampled = append(o.samples, one), now
	if len(o.samples) <= maxSamples {
		return
	}
	thinned, gap := o.samples[:0], int64(0)
	for i, one := range o.samples {
		one[4] |= gap // of the one that went before it
		if gap = 0; i < maxSamples/2 && i%2 == 1 {
			gap = one[4]
			continue
		}
		thinned = append(thinned, one)
	}
	o.samples = thinned
}

// usageOf divides the device, if it can tell, and asks for the limit.
func (o *watched) usageOf(now time.Time) *memory.Usage {
	c, ok := o.allocator.(interface{ Usage() (memory.Usage, error) })
	if !ok || now.Sub(o.usageAt) < usageAge {
		return o.usage
	}
	o.usage, o.usageAt = nil, now
	if u, err := c.Usage(); err == nil && u.Total > 0 {
		o.usage = &u
		o.limit = o.limitOf(u.Total)
	}
	return o.usage
}

// limitOf returns how much of the device's memory the allocator may reserve, 0 if there is no limit.
func (o *watched) limitOf(total uint64) int64 {
	c, ok := o.allocator.(interface{ MemoryFraction() (float64, error) })
	if !ok {
		return 0
	}
	fraction, err := c.MemoryFraction()
	if err != nil || fraction >= 1 {
		return 0
	}
	return int64(math.Round(fraction * float64(total)))
}

// record begins or ends a recording for the pages.
func (h *handler) record(w http.ResponseWriter, r *http.Request) error {
	a, err := allocator(r)
	if err != nil {
		return err
	}
	c, ok := a.(historian)
	if !ok {
		return &httpError{status: http.StatusNotFound, text: fmt.Sprintf("%s has no caching allocator", a.Device())}
	}
	on := r.URL.Query().Get("on")
	if on != "0" && on != "1" {
		return &httpError{status: http.StatusBadRequest, text: fmt.Sprintf("on is %.20q, must be 1 to begin a recording or 0 to end it", on)}
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
