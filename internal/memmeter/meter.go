// Package memmeter adds up what the blocks of an allocator are for. The allocator tells a Meter of each block that it hands out and takes back,
// with the operation that asked (package oplabel), and those who hold a block tell what it is to them. The sums are exact: at every moment the
// blocks that the meter has are those that the allocator counts as allocated.
//
// What was alive when the most was is known only afterwards. Meters keep the changes in a log, and go through it when it is full: only then, and
// only if the log has a new peak, the blocks alive are copied.
package memmeter

import (
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/internal/oplabel"
)

// Use is what a block is for. Where a block is several of these, the later one counts.
type Use uint8

// The uses.
const (
	Unknown    Use = iota // of a block that no operation has asked for
	Workspace             // of an operation, in its forward or its backward pass
	Activation            // a result of an operation, or what it saved besides
	Input
	Gradient
	State // of an optimizer
	Parameter
	Uses // how many there are
)

// block is a block that is, or was, allocated.
type block struct {
	bytes   uint64
	label   oplabel.Label
	by      oplabel.ID // what asked for it
	use     Use
	saved   bool
	counted bool // its allocation is in the flows
}

// change is a block that came, or went.
type change struct {
	b        *block
	gone     bool
	reserved int64 // then
}

// logged is how many changes are kept before they are gone through.
const logged = 4096

// Meter is told of all blocks of an allocator, by several goroutines. The zero Meter is ready.
type Meter struct {
	mu           sync.Mutex
	live         map[uint64]*block // by address
	log          []change
	before       map[*block]struct{} // alive at the beginning of the log
	total        uint64              // at the beginning of the log
	peak         uint64
	atPeak       []*block
	highest      *block // with whose allocation the peak was reached, nil at the beginning
	reserved     int64  // from the driver
	peakReserved int64  // when the peak was reached
	mostReserved int64
	flows        map[oplabel.Label]*Flow
	start        uint64
	ended        bool
}

// Flow is what an operation of a module has moved, in bytes.
type Flow struct{ Allocated, Freed, Saved, Allocations uint64 }

// Begin tells of a block that is there already. It comes before everything else.
func (m *Meter) Begin(addr, bytes uint64, id oplabel.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.init()
	b := newBlock(bytes, id)
	m.live[addr], m.before[b] = b, struct{}{}
	m.total += bytes
	m.start, m.peak, m.peakReserved = m.total, m.total, m.reserved
	m.atPeak = append(m.atPeak, b)
}

func (m *Meter) init() {
	if m.live == nil {
		m.live, m.before, m.flows = map[uint64]*block{}, map[*block]struct{}{}, map[oplabel.Label]*Flow{}
	}
}

func newBlock(bytes uint64, id oplabel.ID) *block {
	b := &block{bytes: bytes, label: id.Label(), by: id}
	if id != 0 {
		b.use = Workspace
	}
	return b
}

// Reserve tells of memory that was got from the driver, or given back. Before Begin it is what there is.
func (m *Meter) Reserve(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reserved += n; m.peak == 0 {
		m.peakReserved = m.reserved
	}
	m.mostReserved = max(m.mostReserved, m.reserved)
}

// Alloc tells of a block that was handed out.
func (m *Meter) Alloc(addr, bytes uint64, id oplabel.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.init()
	b := newBlock(bytes, id)
	b.counted = true
	m.live[addr] = b
	f := m.flow(b.label)
	f.Allocated += bytes
	f.Allocations++
	m.note(change{b: b, reserved: m.reserved})
}

// Free tells of a block that was given back. What it was allocated by has freed it, whoever did.
func (m *Meter) Free(addr uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.live[addr]
	if b == nil || m.ended {
		return
	}
	delete(m.live, addr)
	m.flow(b.label).Freed += b.bytes
	m.note(change{b: b, gone: true})
}

func (m *Meter) flow(l oplabel.Label) *Flow {
	f := m.flows[l]
	if f == nil {
		f = new(Flow)
		m.flows[l] = f
	}
	return f
}

// note adds a change to the log. Caller holds m.mu.
func (m *Meter) note(c change) {
	m.log = append(m.log, c)
	if len(m.log) >= logged {
		m.fold()
	}
}

// fold goes through the log, and forgets it. Caller holds m.mu.
func (m *Meter) fold() {
	highest, at, total := m.peak, -1, m.total
	for i, c := range m.log {
		if c.gone {
			total -= c.b.bytes
		} else {
			total += c.b.bytes
		}
		if total > highest {
			highest, at = total, i
		}
	}
	for i, c := range m.log {
		if c.gone {
			delete(m.before, c.b)
		} else {
			m.before[c.b] = struct{}{}
		}
		if i == at {
			m.peak, m.highest, m.peakReserved = highest, c.b, c.reserved
			m.atPeak = m.atPeak[:0]
			for b := range m.before {
				m.atPeak = append(m.atPeak, b)
			}
		}
	}
	m.total, m.log = total, m.log[:0]
}

// Mark tells what the block at an address is for. A block that no operation has asked for gets the label.
func (m *Meter) Mark(addr uint64, u Use, l oplabel.Label) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.live[addr]
	if b == nil || m.ended {
		return
	}
	b.use = max(b.use, u)
	if l != (oplabel.Label{}) && (b.label == (oplabel.Label{}) || b.label.Module == "" && !b.label.Model && l.Op == b.label.Op) {
		m.rename(b, l)
	}
}

// rename gives a block another label, as if it had been allocated under that. Caller holds m.mu.
func (m *Meter) rename(b *block, l oplabel.Label) {
	if b.counted {
		from, to := m.flow(b.label), m.flow(l)
		from.Allocated -= b.bytes
		from.Allocations--
		to.Allocated += b.bytes
		to.Allocations++
	}
	b.label = l
}

// Save tells that a block is saved for backward, by an operation.
func (m *Meter) Save(addr uint64, by oplabel.Label) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.live[addr]
	if b == nil || m.ended || b.saved || b.use == Parameter {
		return
	}
	b.saved, b.use = true, max(b.use, Activation)
	m.flow(by).Saved += b.bytes
}

// Label is that of the block at an address.
func (m *Meter) Label(addr uint64) oplabel.Label {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.live[addr]; b != nil {
		return b.label
	}
	return oplabel.Label{}
}

// Sum is what an operation of a module has moved, and what it had at the peak.
type Sum struct {
	oplabel.Label
	Flow
	AtPeak [Uses]uint64
}

// Result is what a Meter found.
type Result struct {
	Start, Peak, End uint64        // allocated bytes
	Reserved         uint64        // when the peak was reached
	MostReserved     uint64        // at any time
	At               oplabel.Label // what reached it, the zero label if no operation did
	Began            bool          // it was there at the beginning
	Untold           uint64        // of Peak: was there before the first Alloc, and nobody has told what for
	Sums             []Sum         // in no order
}

// End ends the counting.
func (m *Meter) End() Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.fold()
	sums := map[oplabel.Label]*Sum{}
	sum := func(l oplabel.Label) *Sum {
		if sums[l] == nil {
			sums[l] = &Sum{Label: l}
		}
		return sums[l]
	}
	for l, f := range m.flows {
		if *f != (Flow{}) {
			sum(l).Flow = *f
		}
	}
	untold := uint64(0)
	for _, b := range m.atPeak {
		sum(b.label).AtPeak[b.use] += b.bytes
		if !b.counted && b.use <= Workspace {
			untold += b.bytes
		}
	}
	r := Result{Start: m.start, Peak: m.peak, End: m.total, Reserved: uint64(max(m.peakReserved, 0)), MostReserved: uint64(m.mostReserved), Began: m.highest == nil, Untold: untold}
	if m.highest != nil && m.highest.by != 0 {
		r.At = m.highest.label
	}
	for _, s := range sums {
		r.Sums = append(r.Sums, *s)
	}
	m.live, m.before, m.atPeak, m.highest, m.log = nil, nil, nil, nil, nil
	return r
}

// Meters is a list of them, which does not change.
type Meters []*Meter

// With is the list and one more.
func (l Meters) With(m *Meter) Meters { return append(slices.Clone(l), m) }

// Without is the list without one.
func (l Meters) Without(m *Meter) Meters {
	return slices.DeleteFunc(slices.Clone(l), func(have *Meter) bool { return have == m })
}
