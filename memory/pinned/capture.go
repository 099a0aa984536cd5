package pinned

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// Capture holds the pinned blocks that a graph capture uses. A captured graph has their addresses in it and uses them
// again with each replay, so they must not be handed out to anybody else while the graph lives, although the program that was
// captured frees them. Blocks that were allocated during the capture but never used on a captured stream are free as ever.
type Capture struct {
	set       *captureSet
	capturing func(device.Stream) bool

	mu     sync.Mutex // after the locks of buckets
	ended  bool       // no more blocks
	blocks []*block
}

// captureSet has the captures that are going on, in the order in which they began; nil is none. Replaced, never changed,
// under mu.
type captureSet struct {
	mu  sync.Mutex
	now atomic.Pointer[[]*Capture]
}

// BeginCapture begins to hold blocks: those of which RecordStream says that work uses them on a stream for which capturing
// returns true. If several captures claim a stream, the latest has it. capturing is called by RecordStream, by several
// goroutines at once and without a lock: it may call the allocator, but for RecordStream, and if it panics nothing was recorded.
// Call Release when the graph is gone. A nil function is a *memory.ArgumentError.
func (p *Allocator) BeginCapture(capturing func(device.Stream) bool) (*Capture, error) {
	if p.absent() {
		return nil, argumentErr("pinned.BeginCapture", text.NilAllocator)
	}
	if capturing == nil {
		return nil, argumentErr("pinned.BeginCapture", text.NilFunction)
	}
	c := &Capture{set: &p.captures, capturing: capturing}
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	list := append(slices.Clone(c.set.list()), c)
	c.set.now.Store(&list)
	return c, nil
}

// Keep is an option of memory.Caching.CaptureGraph: the graph also keeps the pinned blocks that the captured work uses, as RecordStream
// tells p, until it is closed.
func Keep(p *Allocator) memory.CaptureOption {
	return memory.CaptureKeeping(func(capturing func(device.Stream) bool) (memory.CaptureKeeper, error) {
		c, err := p.BeginCapture(capturing)
		if err != nil {
			return nil, err
		}
		return c, nil
	})
}

// End says that the capture is over: no more blocks are held, those that are stay so. Ending twice is harmless.
func (c *Capture) End() {
	if c == nil || c.set == nil {
		return
	}
	c.set.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(c.set.list()), func(d *Capture) bool { return d == c })
	if len(list) == 0 {
		c.set.now.Store(nil)
	} else {
		c.set.now.Store(&list)
	}
	c.set.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// Release lets go of the blocks: the graph is gone, and its work done. Those that were freed meanwhile can be handed out
// again. It ends the capture if that goes on, and releasing twice is harmless. Errors are those of Free for blocks larger than
// PinnedMaxCachedBytes.
func (c *Capture) Release() error {
	if c == nil || c.set == nil {
		return nil
	}
	c.End()
	c.mu.Lock()
	blocks := c.blocks
	c.blocks = nil
	c.mu.Unlock()
	if len(blocks) == 0 {
		return nil
	}
	p := blocks[0].bucket.owner
	policy := p.policy.Load()
	var back *block
	for _, b := range blocks {
		if c.letGo(b, policy) {
			b.next, back = back, b
		}
	}
	err := p.releaseList(back)
	p.verify()
	if policy.catchAll {
		return nil
	}
	return err
}

// of returns the capture that claims s, or nil.
func (set *captureSet) of(s device.Stream) *Capture {
	for _, c := range slices.Backward(set.list()) {
		if c.capturing(s) {
			return c
		}
	}
	return nil
}

func (set *captureSet) list() []*Capture {
	if list := set.now.Load(); list != nil {
		return *list
	}
	return nil
}

// hold makes the capture hold b, once. It reports false if the capture has ended meanwhile. Caller holds the lock of b's
// bucket.
func (c *Capture) hold(b *block) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if !slices.Contains(b.holders, c) {
		b.holders = append(b.holders, c)
		c.blocks = append(c.blocks, b)
	}
	return true
}

// letGo is the opposite of hold. It reports whether the block is to be released.
func (c *Capture) letGo(b *block, policy *policy) (release bool) {
	k := b.bucket
	k.mu.Lock()
	defer k.mu.Unlock()
	b.holders = slices.DeleteFunc(b.holders, func(d *Capture) bool { return d == c })
	return b.state == statePending && k.arrive(b, policy)
}
