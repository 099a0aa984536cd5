package memory

import "sync"

// spinMutex is a mutex for sections that are over in a fraction of a microsecond. Who finds it taken looks again for a few
// microseconds before he waits as for any mutex: being parked and woken costs many times what the owner still needs, and
// sync.Mutex alone parks early. The zero spinMutex is free.
type spinMutex struct {
	mu sync.Mutex
}

// Lock takes the mutex. Alloc and Free do so by themselves, with TryLock and spin: the compiler puts TryLock where it is called, and not Lock.
func (m *spinMutex) Lock() {
	if !m.mu.TryLock() {
		m.spin()
	}
}

// Unlock gives it back.
func (m *spinMutex) Unlock() { m.mu.Unlock() }

// TryLock takes the mutex if it is free.
func (m *spinMutex) TryLock() bool { return m.mu.TryLock() }

func (m *spinMutex) spin() {
	const (
		rounds = 64
		pause  = 128 // empty iterations between two looks, so that the owner's cache line stays his
	)
	for range rounds {
		for left := pause; left > 0; left-- {
		}
		if m.mu.TryLock() {
			return
		}
	}
	m.mu.Lock()
}
