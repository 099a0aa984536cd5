package journal

import "github.com/cistern-ml/cistern/device"

// Logbook is where a part of an allocator writes its entries, under the lock of that part, which guards the log too. The zero
// Logbook records nothing.
type Logbook struct {
	rec   *Recorder // nil while no history is recorded
	chunk *chunk    // being filled

	Stream device.StreamID // of the entries; seal the log before it changes
	Pool   Pool
	Tag    Tag // of the entries being written
}

// On reports whether history is recorded. Callers ask before they find out what to write, which is never for most programs.
func (l *Logbook) On() bool { return l.rec != nil }

// Recorder returns the recorder, or nil.
func (l *Logbook) Recorder() *Recorder { return l.rec }

// SetRecorder begins or, with nil, ends the recording. All logs are locked for it, so that it is one moment for all.
func (l *Logbook) SetRecorder(rec *Recorder) {
	if rec == nil || l.rec == nil || rec.journal != l.rec.journal {
		l.chunk = nil // of a trace that is forgotten
	}
	l.rec = rec
}

// Write adds an entry with a number of its own.
func (l *Logbook) Write(act Action, addr device.Ptr, size uint64, m Site) {
	rec := l.rec
	if !rec.trace || rec.skip>>act&1 != 0 {
		return
	}
	l.put(record{number: rec.journal.last.Add(1), addr: addr, size: size, nanos: m.nanos, stack: m.Stack, action: act})
}

// WriteFree adds the entry of a free, and if done says that nobody else uses the block also the one of its end.
func (l *Logbook) WriteFree(addr device.Ptr, size uint64, m Site, done bool) {
	rec := l.rec
	if !done || rec.skip != 0 || !rec.trace {
		l.Write(FreeRequested, addr, size, m)
		if done {
			l.Write(FreeCompleted, addr, size, m)
		}
		return
	}
	// Two numbers at once: viewers show the pair as one event if nothing is between.
	r := record{number: rec.journal.last.Add(2) - 1, addr: addr, size: size, nanos: m.nanos, stack: m.Stack, action: FreeRequested}
	l.put(r)
	r.number, r.action = r.number+1, FreeCompleted
	l.put(r)
}

func (l *Logbook) put(r record) {
	c := l.chunk
	if c == nil || len(c.records) == cap(c.records) {
		c = l.rec.journal.next(l)
		l.chunk = c
	}
	if r.nanos == 0 {
		r.nanos = l.rec.now()
	}
	if l.rec.context > ContextAlloc {
		r.stack = 0
	}
	r.tag = l.Tag
	c.records = append(c.records, r)
}

// Seal ends what was written so far: the log goes on for another stream, or not at all.
func (l *Logbook) Seal() {
	if l.rec != nil {
		l.rec.journal.seal(l)
	}
}

// Close keeps the entries of a log that ceases to exist.
func (l *Logbook) Close() {
	l.Seal()
	l.rec = nil
}
