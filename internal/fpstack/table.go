package fpstack

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Depth is the number of machine frames, counted from the innermost, to which stacks are cut. The program's own line is outside of all modules
// of a model, each of which is some six frames: a model of ten levels fits.
const Depth = 128

// ID names a stack of a Table. The zero ID is no stack.
type ID uint32

// Table keeps each stack once. It holds a limited number of them: those that come when it is full get the zero ID and are
// counted. Its methods may be called by several goroutines at once, and Here takes no lock for a stack that is known.
type Table struct {
	buckets [1 << bucketBits]atomic.Pointer[entry]
	dropped atomic.Int64

	mu      sync.Mutex
	entries []*entry // guarded by mu; the stack with ID i is entries[i-1]
	limit   int
}

const bucketBits = 12

// entry is one stack. It does not change once it is in its bucket's list.
type entry struct {
	hash uint64
	next *entry // in the bucket
	pcs  []uintptr
	tag  uint32
	id   ID
}

// NewTable makes a table for up to limit stacks. A full one takes about 400 bytes for each of 30 frames.
func NewTable(limit int) *Table { return &Table{limit: limit} }

// Here is the stack of the caller, from the function that calls Here outwards. The tag is what the caller has to say about it: stacks with
// different ones are different stacks.
//
//go:noinline
func (t *Table) Here(tag uint32) ID {
	var pcs [Depth]uintptr
	n, hash := callers(0, &pcs)
	hash = (hash ^ uint64(tag)) * 0x9e3779b97f4a7c15
	for e := t.bucket(hash).Load(); e != nil; e = e.next {
		if e.hash == hash && e.tag == tag && slices.Equal(e.pcs, pcs[:n]) {
			return e.id
		}
	}
	return t.add(hash, tag, pcs[:n])
}

// Tag is what Here was told about a stack, 0 for the zero ID.
func (t *Table) Tag(id ID) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id == 0 || int(id) > len(t.entries) {
		return 0
	}
	return t.entries[id-1].tag
}

// Goroutine tells the goroutine that calls it from the others that live. When it has ended, another one may have the same number.
func Goroutine() uintptr { return self() }

// bucket takes the upper bits of the hash: each of them depends on all bits of the addresses.
func (t *Table) bucket(hash uint64) *atomic.Pointer[entry] { return &t.buckets[hash>>(64-bucketBits)] }

// add keeps a stack that was not found.
func (t *Table) add(hash uint64, tag uint32, pcs []uintptr) ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.bucket(hash)
	first := b.Load()
	for e := first; e != nil; e = e.next {
		if e.hash == hash && e.tag == tag && slices.Equal(e.pcs, pcs) { // somebody was faster
			return e.id
		}
	}
	if len(t.entries) >= t.limit {
		t.dropped.Add(1)
		return 0
	}
	e := &entry{hash: hash, next: first, pcs: slices.Clone(pcs), tag: tag, id: ID(len(t.entries) + 1)}
	t.entries = append(t.entries, e)
	b.Store(e)
	return e.id
}

// PCs returns the return addresses of a stack, innermost first, for runtime.CallersFrames. They must not be changed.
func (t *Table) PCs(id ID) []uintptr {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id == 0 || int(id) > len(t.entries) {
		return nil
	}
	return t.entries[id-1].pcs
}

// Frames writes a stack out, innermost first, with inlined functions and without what is there for the runtime's sake. It is
// slow, some microseconds.
func (t *Table) Frames(id ID) []runtime.Frame {
	pcs := t.PCs(id)
	if len(pcs) == 0 {
		return nil
	}
	var list []runtime.Frame
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if f.PC != 0 && !hidden(f.Function) {
			list = append(list, f)
		}
		if !more {
			return list
		}
	}
}

// hidden reports whether a function is of no interest to readers: those that the compiler and the runtime put between two
// others and below the first, which runtime.Callers leaves out too; and Here, which is at the inner end of a stack if the
// compiler calls assembly through a wrapper, as it does not today.
func hidden(function string) bool {
	switch function {
	case "runtime.goexit", "runtime.deferreturn", "runtime.reflectcall", "github.com/cistern-ml/cistern/internal/fpstack.(*Table).Here":
		return true
	}
	return strings.HasPrefix(function, "runtime.call") || strings.Contains(function, ".gowrap")
}

// Len is the number of stacks kept.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}

// Dropped is how often a stack could not be kept because the table was full.
func (t *Table) Dropped() int64 { return t.dropped.Load() }
