package cpu

import (
	"sync/atomic"
	"time"
)

// outlook says how long helpers look for the next section, from how soon the last ones came. A training step has hundreds of sections
// with a few microseconds between them, and a helper that is there already takes its half of each. A program with an operation now and
// then has none that comes in time: to look for it is processor time for nothing, and in operations of a tenth of a millisecond a third
// of all.
type outlook struct {
	since atomic.Int64 // when a helper last began to look, or 0 when the pause after it has been counted
	hope  atomic.Int32 // 0 to maxHope: up by one for a pause that a patient helper sits out, down for a longer one
}

const (
	patient   = 50 * time.Microsecond // more than what a training step does between two operations that are divided
	impatient = 5 * time.Microsecond  // between two sections of one operation
	maxHope   = 8
)

var pauses outlook

// clock is the time since the program began.
func clock() time.Duration { return time.Since(epoch) }

var epoch = time.Now()

// begin says that a helper looks from now on.
func (o *outlook) begin() time.Duration {
	now := clock()
	o.since.Store(int64(now))
	return now
}

// end says that a section begins. Pauses are counted whether or not a helper has waited for so long, so that hope comes back.
func (o *outlook) end() {
	since := o.since.Swap(0)
	if since == 0 {
		return
	}
	hope := o.hope.Load()
	if clock()-time.Duration(since) < patient {
		hope = min(hope+1, maxHope)
	} else {
		hope = max(hope-1, 0)
	}
	o.hope.Store(hope)
}

// patience is how long it is worth looking.
func (o *outlook) patience() time.Duration {
	if o.hope.Load() >= maxHope/2 {
		return patient
	}
	return impatient
}
