package dense

import (
	"fmt"
	"slices"
	"sync"

	gorgonia "gorgonia.org/tensor"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// blocks are those that an Engine has, by address: gorgonia gives back addresses alone, those of views within a block too.
type blocks struct {
	mu struct {
		sync.Mutex
		sorted []numbered // by address
		count  uint64     // of all that were ever added
		closed bool
	}
}

// numbered is a block with the count of those that were added before it.
type numbered struct {
	memory.Block
	number uint64
}

// find is the place of the first block that begins behind at or there. The caller has the lock.
func (b *blocks) find(at device.Ptr) (place int, exact bool) {
	return slices.BinarySearchFunc(b.mu.sorted, at, func(x numbered, at device.Ptr) int {
		switch {
		case x.Ptr() < at:
			return -1
		case x.Ptr() > at:
			return 1
		}
		return 0
	})
}

func (b *blocks) add(x memory.Block) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return &tensor.ValueError{Op: "dense.Engine.Alloc", Detail: "the Engine is closed"}
	}
	place, _ := b.find(x.Ptr())
	b.mu.sorted = slices.Insert(b.mu.sorted, place, numbered{x, b.mu.count})
	b.mu.count++
	return nil
}

// take removes the block that begins where s does.
func (b *blocks) take(op string, s span) (memory.Block, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, ok := b.find(s.at)
	if !ok {
		return memory.Block{}, &tensor.ValueError{Op: op, Detail: fmt.Sprintf("%d bytes at %#x are not the Engine's, or are free already", s.bytes, s.at)}
	}
	x := b.mu.sorted[place]
	b.mu.sorted = slices.Delete(b.mu.sorted, place, place+1)
	return x.Block, nil
}

// mark is a number that blocks which are added from now on reach.
func (b *blocks) mark() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.count
}

// takeSince removes the blocks that were added since a mark, and that none of keep lies in.
func (b *blocks) takeSince(mark uint64, keep []span) []memory.Block {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.mu.sorted[:0]
	var taken []memory.Block
	for _, x := range b.mu.sorted {
		if x.number < mark || slices.ContainsFunc(keep, x.has) {
			kept = append(kept, x)
		} else {
			taken = append(taken, x.Block)
		}
	}
	clear(b.mu.sorted[len(kept):])
	b.mu.sorted = kept
	return taken
}

// has reports whether s lies in the block.
func (x numbered) has(s span) bool {
	return s.at >= x.Ptr() && uint64(s.at-x.Ptr())+s.bytes <= x.Size()
}

// contain reports whether s lies in a block.
func (b *blocks) contain(s span) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, exact := b.find(s.at)
	if !exact {
		place--
	}
	return place >= 0 && b.mu.sorted[place].has(s)
}

func (b *blocks) live() (count int, bytes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.mu.sorted {
		bytes += x.Size()
	}
	return len(b.mu.sorted), bytes
}

// close returns what is left.
func (b *blocks) close() []memory.Block {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []memory.Block
	for _, x := range b.mu.sorted {
		left = append(left, x.Block)
	}
	b.mu.sorted, b.mu.closed = nil, true
	return left
}

// spanOf is the memory of mem. A Dense without elements has none.
func spanOf(op string, mem gorgonia.Memory) (span, error) {
	if why := isnil.Why("memory", mem); why != "" {
		return span{}, &tensor.ValueError{Op: op, Detail: why}
	}
	if mem.MemSize() == 0 {
		return span{}, nil
	}
	return span{device.Ptr(mem.Uintptr()), uint64(mem.MemSize())}, nil
}
