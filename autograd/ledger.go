package autograd

import (
	"runtime"
	"sync/atomic"

	"github.com/cistern-ml/cistern/tensor"
)

// value is a tensor handle that a graph owns. Holders are the variable whose value it is and the nodes that saved it:
// sharing one handle between them is what makes "freed unless saved" fall out of the counting. A graph is used by one
// goroutine at a time, so that the count is a plain integer.
type value struct {
	t       *tensor.Tensor
	holders int
	place   int // index in ledger.values, -1 once it left
	packed  *packed
}

// ledger lists what a graph owns. It is an object of its own because it outlives the graph: if a graph is dropped without
// Release, the runtime hands the ledger to the cleanup, which frees what is left. For that the ledger, and everything that
// can be reached from it, must not point back to the graph: tensors do not.
//
// Invariant: values holds exactly the values with holders > 0, each at its place. When it is closed there are none.
type ledger struct {
	values []*value
	packs  map[*packed]struct{} // what hooks made of saved tensors, nil for none
	closed bool                 // all was released: by a function of the program's, maybe, in the middle of an operation
}

// add takes over a handle, with one holder.
func (l *ledger) add(t *tensor.Tensor) *value {
	if l.closed {
		t.Release()
		return &value{t: t, place: -1}
	}
	v := &value{t: t, holders: 1, place: len(l.values)}
	l.values = append(l.values, v)
	return v
}

// hold adds a holder.
func (v *value) hold() *value {
	v.holders++
	return v
}

// drop takes a holder away. With the last one the handle is released; the storage goes back to its allocator if no other
// handle is left on it.
func (l *ledger) drop(v *value) {
	if v == nil || v.holders == 0 {
		return
	}
	if v.holders--; v.holders == 0 {
		l.remove(v)
		v.t.Release()
	}
}

// surrender is drop for the only holder, who keeps the handle: it leaves the graph.
func (l *ledger) surrender(v *value) *tensor.Tensor {
	v.holders = 0
	l.remove(v)
	return v.t
}

func (l *ledger) remove(v *value) {
	if v.place < 0 {
		return
	}
	last := len(l.values) - 1
	l.values[v.place] = l.values[last]
	l.values[v.place].place = v.place
	l.values[last] = nil
	l.values = l.values[:last]
	v.place = -1
}

// releaseAll releases everything, newest first.
func (l *ledger) releaseAll() {
	for i := len(l.values) - 1; i >= 0; i-- {
		v := l.values[i]
		v.holders, v.place = 0, -1
		v.t.Release()
	}
	l.values, l.closed = nil, true
	l.releasePacks()
}

// abandon is releaseAll on the goroutine of runtime cleanups, which must not wait for the allocator's lock or the device.
func (l *ledger) abandon() {
	unreleased.Add(-1)
	for _, v := range l.values {
		v.t.ReleaseLater()
	}
	l.values = nil
	if len(l.packs) > 0 {
		go l.releasePacks() // hooks may wait
	}
}

// unreleased is how many graphs of the process hold memory.
var unreleased atomic.Int64

// guard arms the safety net of a graph: called once, when the graph is made.
func (g *Graph) guard() {
	unreleased.Add(1)
	g.guarded = true
	g.cleanup = runtime.AddCleanup(g, (*ledger).abandon, g.ledger)
}

// unguard is called once, when the graph is released.
func (g *Graph) unguard() {
	g.cleanup.Stop()
	if g.guarded {
		unreleased.Add(-1)
		g.guarded = false
	}
}
