package fit

import (
	"sync"

	"github.com/cistern-ml/cistern/internal/memmeter"
)

// tapeEvents is more than a step has; memory for them is taken as they come.
const tapeEvents = 1 << 20

// tape is what the allocator did in a step. It is not the program's history, which the program may record, change and forget as it likes.
type tape struct {
	mu   sync.Mutex
	list []memmeter.Event
	lost bool // there were more
}

func (t *tape) add(e memmeter.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) == tapeEvents {
		t.lost = true
		return
	}
	t.list = append(t.list, e)
}

func (t *tape) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list, t.lost = t.list[:0], false
}

// events are those since clear, until clear, and whether that is all.
func (t *tape) events() (list []memmeter.Event, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list, !t.lost
}
