package mpi

import (
	"fmt"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// staging moves a collective of a device that MPI cannot see through host memory, pinned where the device has it. The call waits for the
// stream, then for the other ranks.
type staging struct {
	device device.Device

	mu       sync.Mutex // held for a whole collective: they use the same memory one after the other
	dst, src []byte
}

// run does a collective: src to the host, the collective there, dst back, ordered on the stream.
func (g *staging) run(s device.Stream, c comm.Call, rank, size int, on func(comm.Call) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	staged, err := g.memory(c, rank, size)
	if err != nil {
		return g.failed(c, rank, err)
	}
	if err := s.CopyToHost(view(staged.Src, 0, staged.Src.Count), c.Src.Ptr); err != nil {
		return g.failed(c, rank, err)
	}
	if err := on(staged); err != nil {
		return err
	}
	if err := s.CopyToDevice(c.Dst.Ptr, view(staged.Dst, 0, staged.Dst.Count)); err != nil {
		return g.failed(c, rank, err)
	}
	return nil
}

func (g *staging) failed(c comm.Call, rank int, err error) error {
	return &comm.Error{Backend: backend, Operation: c.Operation, Rank: rank, Peer: rank, Detail: fmt.Sprintf("staging %v on the host", c), Err: err}
}

// memory is the call with buffers on the host. Broadcast and AllReduce use one for both.
func (g *staging) memory(c comm.Call, rank, size int) (comm.Call, error) {
	src, err := g.grow(&g.src, c.Src.Bytes())
	if err != nil {
		return c, err
	}
	c.Src.Ptr = src
	if c.Operation == "Broadcast" || c.Operation == "AllReduce" {
		c.Dst.Ptr = src
		return c, nil
	}
	c.Dst.Ptr, err = g.grow(&g.dst, c.Dst.Bytes())
	return c, err
}

// grow makes memory large enough and returns its address.
func (g *staging) grow(memory *[]byte, bytes uint64) (device.Ptr, error) {
	if bytes > uint64(len(*memory)) {
		if err := g.free(memory); err != nil {
			return 0, err
		}
		size := osmem.RoundUp(bytes)
		var err error
		if pinned, ok := g.device.(device.PinnedMemory); ok {
			*memory, err = pinned.AllocPinned(size)
		} else {
			var p uintptr
			if p, err = osmem.Alloc(size); err == nil {
				*memory = osmem.Bytes(p, size)
			}
		}
		if err != nil {
			*memory = nil
			return 0, err
		}
	}
	return device.Ptr(osmem.Address(*memory)), nil
}

func (g *staging) free(memory *[]byte) error {
	b := *memory
	*memory = nil
	if b == nil {
		return nil
	}
	if pinned, ok := g.device.(device.PinnedMemory); ok {
		return pinned.FreePinned(b)
	}
	return osmem.Free(osmem.Address(b), uint64(len(b)))
}

// release gives the memory back.
func (g *staging) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.free(&g.src); err != nil {
		return err
	}
	return g.free(&g.dst)
}
