// Package replay is what work that is captured in a graph takes from device memory, so that its replays differ as eager runs of it do.
//
// The parameters of a captured kernel are part of the graph. What the host decides anew in each step, such as a learning rate or where
// the random numbers of a dropout begin, is therefore not given to kernels as parameters, but as addresses of words that whoever replays the graph fills
// before each launch: a Recording knows them. Packages that launch such kernels ask On whether the stream they enqueue on is being recorded.
// Package autograd/stepgraph makes recordings.
//
// A capture that nobody records, by memory.Caching.CaptureGraph alone, has the parameters of the time of the capture.
package replay

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
)

// Value is what a replay takes from memory.
type Value interface {
	// Fill writes the words for the next replay.
	Fill(words []uint64)
	// Replayed is called when a replay is enqueued.
	Replayed()
}

// Recording is a capture whose replays take words from memory. It may be used by several goroutines while the capture goes on.
type Recording struct {
	id   uint64
	base device.Ptr

	mu      sync.Mutex
	values  []value
	keys    map[any]device.Ptr
	words   []uint64 // as long as what is used; its capacity is the room
	undo    []func()
	watched []func() bool
	refused error
}

type value struct {
	Value
	at, n int
}

// ErrRoom says that a recording has no more words.
var ErrRoom = errors.New("no more room for what replays take from memory")

// active are the recordings whose captures go on, by the number of the capture, and count is how many there are: what programs that capture
// nothing look at.
var (
	active sync.Map
	count  atomic.Int32
)

// Begin begins the recording of what is captured with the stream, which is being captured. base is the address of room words that nobody else uses.
func Begin(s device.Capturer, base device.Ptr, room int) *Recording {
	r := &Recording{id: s.CaptureID(), base: base, keys: map[any]device.Ptr{}, words: make([]uint64, 0, room)}
	active.Store(r.id, r)
	count.Add(1)
	return r
}

// End ends it: what is captured from now on is not recorded. It is called once.
func (r *Recording) End() {
	active.Delete(r.id)
	count.Add(-1)
}

// On is the recording that work enqueued on s becomes part of, nil for work that runs.
func On(s device.Stream) *Recording {
	if count.Load() == 0 {
		return nil
	}
	c, ok := s.(device.Capturer)
	if !ok {
		return nil
	}
	r, _ := active.Load(c.CaptureID())
	found, _ := r.(*Recording)
	return found
}

// Words is the address of n words for a key. make makes their value when the key is new.
func (r *Recording) Words(key any, n int, make func() Value) (device.Ptr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.keys[key]; ok {
		return p, nil
	}
	at := len(r.words)
	if at+n > cap(r.words) {
		return 0, r.refuse(ErrRoom)
	}
	r.words = r.words[:at+n]
	r.values = append(r.values, value{make(), at, n})
	r.keys[key] = r.base.Add(8 * uint64(at))
	return r.keys[key], nil
}

// Refuse says that the work cannot be replayed. The first reason counts, whatever the work makes of the error, which Refuse returns.
func (r *Recording) Refuse(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refuse(err)
}

func (r *Recording) refuse(err error) error {
	if r.refused == nil {
		r.refused = err
	}
	return err
}

// Refused is why the work cannot be replayed, nil if it can.
func (r *Recording) Refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// IfFailed has f called if the capture fails: for what the work has changed on the host. The last one is called first.
func (r *Recording) IfFailed(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undo = append(r.undo, f)
}

// Failed calls what IfFailed was given.
func (r *Recording) Failed() {
	for i := len(r.undo) - 1; i >= 0; i-- {
		r.undo[i]()
	}
	r.undo = nil
}

// Watch has same called before each replay: whether what was captured is still what the program uses, at the same addresses.
func (r *Recording) Watch(same func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = append(r.watched, same)
}

// Current reports whether all that is watched is as it was.
func (r *Recording) Current() bool {
	for _, same := range r.watched {
		if !same() {
			return false
		}
	}
	return true
}

// Fill returns the words for the next replay. They are valid until the next call.
func (r *Recording) Fill() []uint64 {
	for _, v := range r.values {
		v.Fill(r.words[v.at : v.at+v.n])
	}
	return r.words
}

// Replayed says that a replay is enqueued.
func (r *Recording) Replayed() {
	for _, v := range r.values {
		v.Replayed()
	}
}
