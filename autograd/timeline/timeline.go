package timeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/region"
	"github.com/cistern-ml/cistern/internal/timeline"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// ErrRecording is the error of Start while another Timeline records.
var ErrRecording = errors.New("timeline: another timeline is being recorded: it has to be stopped first")

// most is how many spans, and how many states of memory, are kept.
const most = 1 << 20

// Timeline is what was recorded between Start and Stop. Its methods may be called by several goroutines.
type Timeline struct {
	mu      sync.Mutex
	start   time.Time
	stopped bool
	spans   []span
	open    map[uint64]span // regions that have not ended, by their numbers
	regions uint64          // that have begun, so far
	memory  []sample
	last    map[device.ID]sample
	dropped int

	profiles []*cuda.Profile // of GPUs; as Start made them
}

// span is something that took time: an operation, or a region.
type span struct {
	device   device.ID // the zero value for regions
	stream   device.StreamID
	category string
	name     string
	begin    time.Duration // since the start
	took     time.Duration
	open     bool // it had not ended: took is until then
}

// sample is the state of a device's memory from a time on, in bytes.
type sample struct {
	device              device.ID
	at                  time.Duration
	allocated, reserved int64
}

// Start records from now on, until Stop. Of those of the devices that are GPUs it records the devices' own times too, by a cuda.Profile;
// all devices are recorded otherwise. One Timeline records at a time, for all of the process: otherwise the error is ErrRecording. A device that is nil
// is a *tensor.ValueError. Other errors are those of StartProfile.
func Start(devices ...device.Device) (*Timeline, error) {
	for i, dev := range devices {
		if why := isnil.Why("device", dev); why != "" {
			return nil, &tensor.ValueError{Op: "timeline.Start", Detail: fmt.Sprintf("device %d of %d: %s", i, len(devices), why)}
		}
	}
	t := &Timeline{start: time.Now(), open: map[uint64]span{}, last: map[device.ID]sample{}}
	if !timeline.Begin((*recorder)(t)) {
		return nil, ErrRecording
	}
	if err := t.profile(devices); err != nil {
		timeline.End()
		return nil, err
	}
	(*recorder)(t).lookAtAll()
	return t, nil
}

// Stop ends the recording, and waits for the work of GPUs that it has the times of. Regions that are open last until then. Calling it again
// does nothing.
func (t *Timeline) Stop() {
	if t == nil || t.start.IsZero() {
		return
	}
	(*recorder)(t).lookAtAll()
	t.mu.Lock()
	running := !t.stopped
	t.stopped = true
	t.spans = append(t.spans, t.unended()...)
	clear(t.open)
	t.mu.Unlock()
	if running {
		timeline.End()
		t.stopProfiles()
	}
}

// unended are the regions that are open, as if they ended now. The caller holds the lock.
func (t *Timeline) unended() (list []span) {
	now := time.Since(t.start)
	for _, id := range slices.Sorted(maps.Keys(t.open)) {
		s := t.open[id]
		s.took, s.open = now-s.begin, true
		list = append(list, s)
	}
	return list
}

// Region marks a part of the program, as a training step, until end is called by the same goroutine. It is for recorded timelines and for
// traces of runtime/trace, and does nothing while there are none. Regions in it end before it does. Calling end again does nothing; a region
// whose end is not called before Stop lasts until then, and is marked as open.
func Region(name string) (end func()) {
	if !region.On() {
		return func() {}
	}
	return region.Begin("program", name)
}

// recorder is a Timeline as operations and modules see it.
type recorder Timeline

// Launch implements timeline.Recorder.
func (r *recorder) Launch(kind uint8, index int) {
	id := device.ID{Kind: device.Kind(kind), Index: index}
	for _, a := range memory.Allocators() {
		if a.Device() == id {
			r.look(a)
			return
		}
	}
}

// Operation implements timeline.Recorder. It looks at no allocator: those that hold one's locks may wait for this goroutine.
func (r *recorder) Operation(kind uint8, index int, stream uint64, name string, begin time.Time, took time.Duration) {
	r.add(span{device: device.ID{Kind: device.Kind(kind), Index: index}, stream: device.StreamID(stream), category: "operation", name: name, took: took}, begin)
}

// Begin implements timeline.Recorder.
func (r *recorder) Begin(category, name string, begin time.Time) (id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.room(begin) {
		return 0
	}
	r.regions++
	r.open[r.regions] = span{category: category, name: name, begin: begin.Sub(r.start)}
	return r.regions
}

// End implements timeline.Recorder.
func (r *recorder) End(id uint64, took time.Duration) {
	r.mu.Lock()
	if s, ok := r.open[id]; ok {
		delete(r.open, id)
		s.took = took
		r.spans = append(r.spans, s)
	}
	r.mu.Unlock()
	r.lookAtAll()
}

func (r *recorder) add(s span, begin time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.room(begin) {
		s.begin = begin.Sub(r.start)
		r.spans = append(r.spans, s)
	}
}

// room reports whether there is a place for what begins then, and counts it if there is none. The caller holds the lock.
func (r *recorder) room(begin time.Time) bool {
	if r.stopped || begin.Before(r.start) { // an operation that had begun before
		return false
	}
	if len(r.spans)+len(r.open) >= most {
		r.dropped++
		return false
	}
	return true
}

func (r *recorder) lookAtAll() {
	for _, a := range memory.Allocators() {
		r.look(a)
	}
}

// look notes an allocator's state if it is another than the last.
func (r *recorder) look(a memory.Allocator) {
	s := a.Stats()
	now := sample{device: a.Device(), at: time.Since(r.start), allocated: s.AllocatedBytes.All.Current, reserved: s.ReservedBytes.All.Current}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.last[now.device]
	if r.stopped || known && last.allocated == now.allocated && last.reserved == now.reserved {
		return
	}
	if len(r.memory) >= most {
		r.dropped++
		return
	}
	r.last[now.device] = now
	r.memory = append(r.memory, now)
}
