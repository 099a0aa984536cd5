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

// ofGraph notes memory that becomes part of the capture of s, or returns nil if there is none.
func (s *Stream) ofGraph(p device.Ptr) *graphMemory {
	c := s.capture.Load()
	if c == nil {
		return nil
	}
	m := &graphMemory{ptr: p, held: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory = append(c.memory, m)
	return m
}

// left is the memory that the graph of a capture leaves to others to free.
func (d *Device) left(c *capture) (list []*graphMemory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range c.memory {
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
		m.live = m.live && !free
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
