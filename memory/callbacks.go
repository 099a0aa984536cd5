package memory

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
)

// This file is about the calls that go the other way, from the allocator to its program: callbacks of OnLowMemory, and the
// sources of pools. doc.go has the rules.

// OnLowMemory registers a callback for the moment before the driver is asked for more memory. It returns whether it freed
// blocks of this allocator; if any callback did, the cache is searched again. Callbacks run one after the other, in the
// order of registration, never two at a time, and without a lock: they may call the allocator as they like. A request that a
// callback makes itself does without callbacks; those of other goroutines wait until it is done, so it must not wait for them.
// If it panics, the callbacks after it are not called, and the panic reaches who made the request, which has taken nothing. A
// nil function changes nothing.
func (a *Caching) OnLowMemory(f func() (freed bool)) {
	if a.absent() {
		return
	}
	if f == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spoil() // what it frees, and when, depends on the settings
	a.callbacks = append(a.callbacks, f)
}

// runCallbacks calls what OnLowMemory registered for r, and reports whether something was freed. Caller holds a.mu, which is
// released meanwhile.
func (a *Caching) runCallbacks(r *request) bool {
	callbacks := a.callbacks[:len(a.callbacks):len(a.callbacks)]
	if len(callbacks) == 0 {
		return false
	}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.behalf = r.site
	}()
	if !a.calling.TryLock() {
		if calledBy(callbackFrame) {
			return false
		}
		a.calling.Lock()
	}
	defer a.calling.Unlock()
	return callEach(callbacks)
}

//go:noinline
func callEach(callbacks []func() bool) (freed bool) {
	for _, f := range callbacks {
		if f() {
			freed = true
		}
	}
	return freed
}

// The functions that are on the stack while a program's function runs.
const (
	callbackFrame = "memory.callEach"
	sourceFrame   = "memory.(*driverLock).callSource"
)

// calledBy reports whether this goroutine is inside a function. Only who is about to wait asks.
func calledBy(function string) bool {
	pcs := make([]uintptr, 64)
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.HasSuffix(f.Function, function) {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// driverLock is the lock of the driver's side. While a pool's source takes memory back its holder is the source's caller, and a call
// that the source makes would wait for itself: it panics instead.
type driverLock struct {
	mu       sync.Mutex
	inSource atomic.Bool
}

// Lock waits for the lock.
func (l *driverLock) Lock() {
	if l.mu.TryLock() {
		return
	}
	if l.inSource.Load() && calledBy(sourceFrame) {
		// invariant: the contract of Source.Free, without which this call would never return
		panic("memory: Source.Free made a call of the pool's allocator that needs the driver lock")
	}
	l.mu.Lock()
}

// TryLock takes the lock if it is free.
func (l *driverLock) TryLock() bool { return l.mu.TryLock() }

// Unlock gives it back.
func (l *driverLock) Unlock() { l.mu.Unlock() }

// callSource gives memory back to a pool's source. Caller holds l.
//
//go:noinline
func (l *driverLock) callSource(s Source, p device.Ptr) error {
	l.inSource.Store(true)
	defer l.inSource.Store(false)
	return s.Free(p)
}
