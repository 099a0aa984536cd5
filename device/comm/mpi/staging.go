package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// staging moves a collective of a device that MPI cannot see through host memory, pinned where the device has it. The call waits for the
// stream, then for the other ranks; what comes back is copied behind it, if the stream copies without waiting (device.AsyncCopier).
type staging struct {
	device device.Device

	mu       sync.Mutex // held for a whole collective: they use the same memory one after the other
	dst, src []byte
	copied   device.Event // recorded behind the last copy out of that memory; nil before one
}

// run does a collective: src to the host, the collective there, dst back, ordered on the stream.
func (g *staging) run(s device.Stream, c comm.Call, rank int, on func(comm.Call) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	staged, err := g.memory(c)
	if err != nil {
		return g.failed(c, rank, err)
	}
	if err := g.toHost(s, view(staged.Src, 0, staged.Src.Count), c.Src.Ptr); err != nil {
		return g.failed(c, rank, err)
	}
	if err := on(staged); err != nil {
		return err
	}
	if err := g.toDevice(s, c.Dst.Ptr, view(staged.Dst, 0, staged.Dst.Count)); err != nil {
		return g.failed(c, rank, err)
	}
	return nil
}

// toHost copies and waits.
func (g *staging) toHost(s device.Stream, dst []byte, src device.Ptr) error {
	a, ok := g.async(s)
	if !ok || len(dst) == 0 {
		return s.CopyToHost(dst, src)
	}
	if err := a.CopyToHostAsync(dst, src); err != nil {
		return err
	}
	return s.Synchronize(context.Background())
}

// toDevice copies behind the call. The memory is used again when the event has come.
func (g *staging) toDevice(s device.Stream, dst device.Ptr, src []byte) error {
	a, ok := g.async(s)
	if !ok || len(src) == 0 {
		return s.CopyToDevice(dst, src)
	}
	if g.copied == nil {
		e, err := g.device.NewEvent()
		if err != nil {
			return err
		}
		g.copied = e
	}
	if err := a.CopyToDeviceAsync(dst, src); err != nil {
		return err
	}
	if err := s.Record(g.copied); err != nil {
		return errors.Join(err, s.Synchronize(context.Background())) // or the memory would be used again too early
	}
	return nil
}

// async returns the stream if it copies from the memory here without waiting.
func (g *staging) async(s device.Stream) (device.AsyncCopier, bool) {
	_, pinned := g.device.(device.PinnedMemory)
	a, ok := s.(device.AsyncCopier)
	return a, ok && pinned
}

func (g *staging) failed(c comm.Call, rank int, err error) error {
	return &comm.Error{Backend: backend, Operation: c.Operation, Rank: rank, Peer: rank, Detail: fmt.Sprintf("staging %v on the host", c), Err: err}
}

// memory is the call with buffers on the host, which nothing uses any more. Broadcast and AllReduce use one for both.
func (g *staging) memory(c comm.Call) (comm.Call, error) {
	if g.copied != nil {
		if err := g.copied.Synchronize(context.Background()); err != nil {
			return c, err
		}
	}
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
	var wait, end error
	if g.copied != nil {
		wait, end = g.copied.Synchronize(context.Background()), g.copied.Close()
		g.copied = nil
	}
	return errors.Join(wait, end, g.free(&g.src), g.free(&g.dst))
}
