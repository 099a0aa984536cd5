// Package oplabel lets the memory allocator, which knows neither operations nor modules, say which of them it was called by. Whoever runs an
// operation enters its label, and the allocator, called on the same goroutine, asks for the current one.
//
// All of this happens only while somebody records what allocators do (Want): otherwise an operation pays for one atomic read.
package oplabel

import (
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/internal/fpstack"
)

// Label is what a goroutine is doing.
type Label struct {
	Op       string // the operation's name, as in "linear"
	Module   string // the path of the module around it, as in "h.3.attn", empty for none
	Backward bool   // its gradient is being computed
	Model    bool   // Module is empty because it is the model itself
	Again    bool   // a checkpoint computes it once more, for backward
	Step     bool   // it is an optimizer's
}

// Operation is the operation's name, with "backward" if that is where its gradient is computed.
func (l Label) Operation() string {
	if l.Backward {
		return l.Op + " backward"
	}
	return l.Op
}

// String is the operation, with the module in brackets if there is one: "linear backward (h.3.attn.c_attn)".
func (l Label) String() string {
	if l.Module == "" {
		return l.Operation()
	}
	return l.Operation() + " (" + l.Module + ")"
}

// ID names a label. The zero ID is the zero label.
type ID uint32

// How many different labels are kept. Those that come later lose their module: there are some hundred operations.
const (
	most    = 1 << 16
	withOps = most + 1<<12
)

var (
	wanted atomic.Int32

	known struct {
		sync.RWMutex
		ids  map[Label]ID
		list []Label // the label with ID i is list[i-1]
	}

	// current has the labels of goroutines, in parts so that goroutines seldom wait for each other.
	current [64]struct {
		count atomic.Int64 // len(of), to be asked without the lock: of goroutines in no operation there is nothing to find
		sync.Mutex
		of map[uintptr]ID
		_  [32]byte
	}
)

// Want begins to keep labels, until the function that it returns is called as often as Want was.
func Want() (stop func()) {
	wanted.Add(1)
	return sync.OnceFunc(func() { wanted.Add(-1) })
}

// Wanted reports whether anybody wants labels.
func Wanted() bool { return wanted.Load() > 0 }

// Of is the ID of a label.
func Of(l Label) ID {
	known.RLock()
	id, ok := known.ids[l]
	known.RUnlock()
	if ok || l == (Label{}) {
		return id
	}
	known.Lock()
	defer known.Unlock()
	if id, ok := known.ids[l]; ok {
		return id
	}
	if len(known.list) >= most {
		l.Module, l.Model = "", false
		if id, ok := known.ids[l]; ok || len(known.list) >= withOps {
			return id
		}
	}
	if known.ids == nil {
		known.ids = map[Label]ID{}
	}
	known.list = append(known.list, l)
	id = ID(len(known.list))
	known.ids[l] = id
	return id
}

// Label is the label of an ID.
func (id ID) Label() Label {
	known.RLock()
	defer known.RUnlock()
	if id == 0 || int(id) > len(known.list) {
		return Label{}
	}
	return known.list[id-1]
}

// Enter makes id the label of this goroutine, and returns the one before, for Enter when what it stands for is over: a goroutine that ends
// with a label would leave it to another one.
func Enter(id ID) (before ID) {
	g := fpstack.Goroutine()
	part := &current[g>>6%uintptr(len(current))]
	part.Lock()
	defer part.Unlock()
	before = part.of[g]
	switch {
	case id == 0:
		delete(part.of, g)
	case part.of == nil:
		part.of = map[uintptr]ID{g: id}
	default:
		part.of[g] = id
	}
	part.count.Store(int64(len(part.of)))
	return before
}

// Current is the label of this goroutine.
func Current() ID {
	g := fpstack.Goroutine()
	part := &current[g>>6%uintptr(len(current))]
	if part.count.Load() == 0 { // as this goroutine has left it, or nobody has been there
		return 0
	}
	part.Lock()
	defer part.Unlock()
	return part.of[g]
}
