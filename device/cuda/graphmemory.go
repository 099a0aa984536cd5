package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// graphMemory is what AllocAsync returned in a capture, unless the capture freed it again. Each launch of the graph makes the
// memory anew, at the same address; neither the graph's end nor anybody but its owner frees it, so that is done here for owners
// who have let go. Guarded by Device.mu.
type graphMemory struct {
	ptr  device.Ptr
	held bool // its owner has not freed it
	live bool // there is memory, from a launch
}

// allocate runs b, which allocates memory on s, and returns it with what the graph is to know of it, nil outside of captures. No capture
// of the stream begins or ends meanwhile: the driver and the list agree on what is part of it.
func (s *Stream) allocate(b *driver.Batch) (p device.Ptr, m *graphMemory, f driver.Func, r driver.Result) {
	s.looking.RLock()
	defer s.looking.RUnlock()
	c := s.capture.Load()
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	if f, r = b.Run(); r != driver.Success {
		return 0, nil, f, r
	}
	p = device.Ptr(b.Value(0))
	if c != nil && !c.ended {
		m = &graphMemory{ptr: p, held: true}
		c.memory = append(c.memory, m)
	}
	return p, m, f, r
}

// left is the memory that the graph of a capture leaves to others to free.
func (d *Device) left(c *capture) (list []*graphMemory) {
	c.mu.Lock()
	made := c.memory // only ever appended to, by allocations that run while another goroutine ends the capture
	c.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range made {
		if m.held {
			list = append(list, m)
		}
	}
	return list
}

// launched says that a launch made memory.
func (d *Device) launched(list []*graphMemory) {
	if len(list) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range list {
		m.live = true
	}
}

// freeLeft frees what the last launch of a graph left and nobody holds. The driver waits for the work that uses it.
func (d *Device) freeLeft(call string, list []*graphMemory) (first error) {
	for _, m := range list {
		d.mu.Lock()
		free := m.live && !m.held
		m.live = m.live && !free // taken off before the call, so that two that free the same do it once
		d.mu.Unlock()
		if !free {
			continue
		}
		if err := d.call(call, driver.MemFree, uintptr(m.ptr)); err != nil {
			first = join(first, err)
			d.mu.Lock()
			m.live, d.mu.async[m.ptr] = true, m // Close of the device tries again
			d.mu.Unlock()
		}
	}
	return first
}
