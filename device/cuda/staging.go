package cuda

import (
	"context"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// chunkSize is large enough that the time to start a copy does not count, and small enough that the second chunk is filled
// while the first is being copied also for middling sizes.
const chunkSize = 1 << 20

// staging is pinned memory through which a stream copies to the device: two chunks, taken at the first copy. One is filled
// from front to back; when it is full, an event is recorded behind its copies and the other takes its turn, after its own
// event.
type staging struct {
	mu     sync.Mutex // held while copying, so that copies of one stream do not mix
	chunks [2]chunk
	now    int // index of the chunk in turn
}

type chunk struct {
	mem  []byte // pinned, not of the Go heap
	used int    // bytes from the front that copies under way may read
	done *Event // recorded when the chunk was full
	busy bool   // the event has not been waited for
}

// copy copies src to dst, ordered on s.
func (g *staging) copy(s *Stream, dst device.Ptr, src []byte) error {
	g.mu.Lock() // through the wait for a chunk, too: other copies on this stream would have to wait for the same one
	defer g.mu.Unlock()
	for len(src) > 0 {
		c, err := g.chunk(s)
		if err != nil {
			return err
		}
		from := c.used
		n := copy(c.mem[from:], src)
		if err := g.put(s, dst, c.mem[from:from+n]); err != nil {
			return err
		}
		c.used = from + (n+63)&^63 // the next copy begins on a cache line
		dst, src = dst.Add(uint64(n)), src[n:]
	}
	return nil
}

// put lets the device copy from pinned memory.
func (g *staging) put(s *Stream, dst device.Ptr, mem []byte) error {
	b, err := s.begin("CopyToDevice")
	if err != nil {
		return err
	}
	return s.enqueue(b, "CopyToDevice", driver.MemcpyHtoDAsync, uintptr(dst), b.Bytes(mem), uintptr(len(mem)), s.handle)
}

// chunk returns a chunk that has room. Should the driver fail here, the same is tried again the next time. Caller holds g.mu.
func (g *staging) chunk(s *Stream) (*chunk, error) {
	c := &g.chunks[g.now]
	if c.used >= chunkSize && !c.busy {
		// Behind the last copy from this chunk, as only copies under g.mu read it. Other work that the stream was given since is waited
		// for as well, which does no harm.
		if err := s.Record(c.done); err != nil {
			return nil, err
		}
		c.busy = true
		g.now = 1 - g.now
		c = &g.chunks[g.now]
	}
	if c.busy {
		if err := c.done.Synchronize(context.Background()); err != nil {
			return nil, err
		}
		c.busy, c.used = false, 0
	}
	if c.mem != nil {
		return c, nil
	}
	if c.done == nil {
		done, err := s.device.newEvent(driver.EventDisableTiming)
		if err != nil {
			return nil, err
		}
		c.done = done
	}
	// Last: a chunk with an event and no memory is taken up here again after a failure.
	mem, err := s.device.AllocPinned(chunkSize)
	if err != nil {
		return nil, err
	}
	c.mem = mem
	return c, nil
}

// release gives the chunks back. Their copies are done. What the driver refuses stays for the next call.
func (g *staging) release(d *Device) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.chunks {
		c := &g.chunks[i]
		if c.mem != nil {
			if err := d.FreePinned(c.mem); err != nil {
				return err
			}
			c.mem = nil
		}
		if c.done != nil {
			if err := c.done.Close(); err != nil {
				return err
			}
		}
		*c = chunk{} // a call after a refusal begins at the chunk that was refused
	}
	return nil
}
