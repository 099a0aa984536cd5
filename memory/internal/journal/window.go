package journal

import (
	"iter"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
)

// Window is a copy of the entries that there are.
type Window struct {
	runs    []run
	records []record
	floor   uint64 // entries up to this number do not belong
	last    uint64
}

// run says whose the next n records are.
type run struct {
	stream device.StreamID
	pool   Pool
	n      int
}

// Prepare makes room for a copy of the entries of so many logs, so that Copy need not do it under the locks.
func (rec *Recorder) Prepare(logs int) Window { return rec.journal.prepare(logs) }

// Copy takes the entries. Caller has locked all that write: logs are theirs.
func (rec *Recorder) Copy(w *Window, logs []*Logbook) { rec.journal.copy(w, logs) }

func (w *Window) add(c *chunk) {
	w.runs = append(w.runs, run{c.stream, c.pool, len(c.records)})
	w.records = append(w.records, c.records...)
}

// Dropped is how many entries were recorded before those in the window.
func (w *Window) Dropped() int64 { return int64(w.floor) }

// Len is how many entries the window has.
func (w *Window) Len() int { return int(w.last - w.floor) }

// Entry is one entry of the trace.
type Entry struct {
	Action Action
	Tag    Tag
	Addr   device.Ptr
	Size   uint64 // bytes
	TimeUS int64  // microseconds since 1970; never less than that of the entry before
	Stack  fpstack.ID
	Stream device.StreamID
	Pool   Pool
}

// Entries yields the entries in their order: those of one private pool, or of all if want is nil.
func (w *Window) Entries(want *Pool) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		var latest int64
		for _, at := range w.order(want) {
			if at.run == nil { // of another pool
				continue
			}
			r := &w.records[at.record]
			// A call has the time at which it began, and its number from when it had the lock.
			latest = max(latest, r.nanos/1000)
			if !yield(Entry{r.action, r.tag, r.addr, r.size, latest, r.stack, at.run.stream, at.run.pool}) {
				return
			}
		}
	}
}

// place is where an entry lies in a window.
type place struct {
	run    *run // nil if it is not wanted
	record int
}

// order returns the places of the entries by number. Numbers have no gaps, so the number is the index.
func (w *Window) order(want *Pool) []place {
	order := make([]place, w.last-w.floor)
	first := 0
	for i := range w.runs {
		run := &w.runs[i]
		if want == nil || *want == run.pool {
			for at := first; at < first+run.n; at++ {
				if n := w.records[at].number; n > w.floor {
					order[n-w.floor-1] = place{run, at}
				}
			}
		}
		first += run.n
	}
	return order
}

// Capacity is how many entries there is room for, besides the chunks being filled.
func (rec *Recorder) Capacity() (n int) {
	j := rec.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, list := range [][]*chunk{j.spare, j.queue} {
		for _, c := range list {
			n += cap(c.records)
		}
	}
	return n
}

// Capacity is how many entries the chunk being filled has room for.
func (l *Logbook) Capacity() int {
	if l.chunk == nil {
		return 0
	}
	return cap(l.chunk.records)
}
