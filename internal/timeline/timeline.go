// Package timeline is where operations and regions are told to whoever records when they ran. Nobody does, most of the time: then
// Active is a load and a comparison.
package timeline

import (
	"sync/atomic"
	"time"
)

// Recorder is told what ran. It is called by the goroutines that ran it, several at once.
type Recorder interface {
	// Launch comes before an operation is given to a device, which has the number that device.ID gives it, from the goroutine that wants
	// it: the moment to look at memory. Operation may come from the device's own goroutine, for which others wait: it must wait for nobody.
	Launch(kind uint8, index int)
	// Operation is an operation that ran on a stream.
	Operation(kind uint8, index int, stream uint64, name string, begin time.Time, took time.Duration)
	// Begin is the begin of a part of the program, which gets a number for End.
	Begin(category, name string, begin time.Time) (id uint64)
	// End is the end of a part that has begun, once.
	End(id uint64, took time.Duration)
}

// active is who records.
var active atomic.Pointer[Recorder]

// Active returns who records, or nil.
func Active() Recorder {
	if r := active.Load(); r != nil {
		return *r
	}
	return nil
}

// Begin has r told from now on, unless there is another one already, and reports whether it is.
func Begin(r Recorder) bool { return active.CompareAndSwap(nil, &r) }

// End has nobody told any more.
func End() { active.Store(nil) }
