package memory

import "errors"

// OnOOM registers a function to be told of every *OOMError that a request ends with: to log, to take a snapshot, to dump it. It
// is called by the goroutine whose request failed, before that returns, in the order of registration and without a lock, so
// it may call the allocator as it likes; a request of its own that fails is told to all functions too. If it panics, the functions
// after it are not called, and the panic reaches who made the request. A nil function changes nothing.
func (a *Caching) OnOOM(f func(*OOMError)) {
	if a.absent() {
		return
	}
	if f == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.observers = append(a.observers, f)
}

// tellObservers calls what OnOOM registered if err is an *OOMError. No lock is held.
func (a *Caching) tellObservers(err error) {
	var oom *OOMError
	if !errors.As(err, &oom) {
		return
	}
	a.mu.Lock()
	observers := a.observers[:len(a.observers):len(a.observers)]
	a.mu.Unlock()
	for _, f := range observers {
		f(oom)
	}
}
