package launches

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/internal/timeline"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Count is how often operations of one kind were put on a stream, and what they moved.
type Count struct {
	Name         string `json:"name"`
	Operations   int    `json:"operations"`
	LibraryCalls int    `json:"library_calls,omitempty"` // of them products of cuBLAS or cuBLASLt
	Bytes        int64  `json:"bytes_moved"`
}

// Counts are all kinds, those with most operations first.
type Counts []Count

// Total is the sum over all kinds.
func (c Counts) Total() Count {
	sum := Count{Name: "all"}
	for _, x := range c {
		sum.merge(x)
	}
	return sum
}

// Of is the count of one kind.
func (c Counts) Of(name string) Count {
	for _, x := range c {
		if x.Name == name {
			return x
		}
	}
	return Count{Name: name}
}

func (c *Count) merge(x Count) {
	c.Operations += x.Operations
	c.LibraryCalls += x.LibraryCalls
	c.Bytes += x.Bytes
}

// counter adds up while it is on.
type counter struct {
	mu    sync.Mutex
	kinds map[string]*Count // nil while nobody counts
	last  *op.Call          // what the last kernel was launched for, in the same call of package kernels
}

// Begin counts from now on, from zero. It reports false where something else of the process records operations, or another Device counts.
func (d *Device) Begin() bool {
	if !timeline.Begin((*calls)(&d.counter)) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kinds, d.last = map[string]*Count{}, nil
	return true
}

// End counts no more, and returns what was counted since Begin.
func (d *Device) End() (all Counts) {
	timeline.End()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.kinds {
		all = append(all, *c)
	}
	d.kinds = nil
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(-cmp.Compare(a.Operations, b.Operations), -cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// add counts one operation.
func (c *counter) add(x Count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addLocked(x)
}

func (c *counter) addLocked(x Count) {
	if c.kinds == nil {
		return
	}
	if x.Operations == 0 {
		x.Operations = 1
	}
	k := c.kinds[x.Name]
	if k == nil {
		k = &Count{Name: x.Name}
		c.kinds[x.Name] = k
	}
	k.merge(x)
}

// launched counts a kernel. The bytes of a call count with its first one.
func (c *counter) launched(what fmt.Stringer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, ok := what.(*op.Call)
	if !ok {
		c.addLocked(Count{Name: what.String()})
		return
	}
	x := Count{Name: nameOf(call)}
	if c.last != call {
		c.last, x.Bytes = call, bytesOf(call)
	}
	c.addLocked(x)
}

// calls is a counter as package kernels knows it: it is told where a call begins.
type calls counter

// Launch implements timeline.Recorder. A Call may be used again for the next one.
func (c *calls) Launch(uint8, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = nil
}

func (*calls) Operation(uint8, int, uint64, string, time.Time, time.Duration) {}
func (*calls) Begin(string, string, time.Time) uint64                         { return 0 }
func (*calls) End(uint64, time.Duration)                                      {}
