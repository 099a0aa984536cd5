// Package sections measures how much of a program the host's kernels can share among processors: what each parallel section takes on one, and into how many
// pieces it could be cut. From that follows how long the program takes at least on any number of processors.
package sections

import (
	"sync"
	"sync/atomic"
	"time"
)

// Meter takes in the sections that run while it is watched. Each runs on the goroutine that begins it, as a whole; one within another belongs to that, and so
// does one that another goroutine begins meanwhile.
type Meter struct {
	Workers int           // processors that there would be
	Count   int           // sections
	Alone   time.Duration // what they took on one processor
	Shared  time.Duration // what they would take on all: none has more processors than pieces

	inside sync.Mutex
}

var watched atomic.Pointer[Meter]

// Watch makes sections tell m until stop is called.
func Watch(m *Meter) (stop func()) {
	watched.Store(m)
	return func() { watched.Store(nil) }
}

// Watched is the meter that wants to know of sections, or nil.
func Watched() *Meter { return watched.Load() }

// Run runs a section of so many pieces.
func (m *Meter) Run(pieces int, f func()) {
	if !m.inside.TryLock() {
		f()
		return
	}
	defer m.inside.Unlock()
	begin := time.Now()
	f()
	took := time.Since(begin)
	m.Count++
	m.Alone += took
	m.Shared += took / time.Duration(max(1, min(pieces, m.Workers)))
}

// Bound is the least time in which a program could run that took total under the meter.
func (m *Meter) Bound(total time.Duration) time.Duration { return total - m.Alone + m.Shared }
