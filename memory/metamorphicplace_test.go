package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
)

// lockedRand are random numbers for several goroutines.
type lockedRand struct {
	mu    *sync.Mutex
	rng   *rand.Rand
	quiet *atomic.Bool // nothing happens any more
}

func newLockedRand(seed uint64) lockedRand {
	return lockedRand{&sync.Mutex{}, rand.New(rand.NewPCG(seed, 99)), &atomic.Bool{}}
}

func (r *lockedRand) below(n int) int {
	if r.quiet.Load() {
		return n - 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(n)
}

func (r *lockedRand) one(of int) bool { return r.below(of) == 0 && !r.quiet.Load() }

// heldRanges are the bytes in use. A block is entered after its Alloc and taken out before its Free, so two that overlap here
// were in use at the same time.
type heldRanges struct {
	mu   sync.Mutex
	list []Block // by address
}

func (h *heldRanges) place(b Block) (int, bool) {
	return slices.BinarySearchFunc(h.list, b, func(x, y Block) int {
		switch {
		case x.ptr < y.ptr:
			return -1
		case x.ptr > y.ptr:
			return 1
		}
		return 0
	})
}

func (h *heldRanges) add(b Block) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, found := h.place(b)
	if found || i > 0 && h.list[i-1].ptr.Add(h.list[i-1].size) > b.ptr || i < len(h.list) && b.ptr.Add(b.size) > h.list[i].ptr {
		return fmt.Errorf("%d bytes at %#x overlap a block in use", b.size, uintptr(b.ptr))
	}
	h.list = slices.Insert(h.list, i, b)
	return nil
}

func (h *heldRanges) remove(b Block) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, found := h.place(b)
	if !found {
		return fmt.Errorf("%d bytes at %#x are not in use", b.size, uintptr(b.ptr))
	}
	h.list = slices.Delete(h.list, i, i+1)
	return nil
}

func (h *heldRanges) empty() error {
	if len(h.list) > 0 {
		return fmt.Errorf("%d blocks were not freed", len(h.list))
	}
	return nil
}

// stressPlace is a device whose driver calls fail.
type stressPlace interface {
	device() device.Device
	driver() VirtualDriver
	// setFaults makes one call out of odds fail; 0 is none.
	setFaults(odds int)
	// complete finishes the work on a stream, where that does not happen by itself.
	complete(s device.Stream)
	close() error
}

func openPlace(name string, chance *lockedRand) stressPlace {
	if name == "host" {
		return &hostPlace{Device: host.New(host.Capacity(64*mib), host.CheckBounds()), chance: chance}
	}
	p := &simPlace{chance: chance}
	p.dev = sim.New(96*mib, sim.ManualStreams())
	p.dev.Inject(func(c sim.Call) error {
		if odds := p.odds.Load(); odds > 0 && slices.Contains(fuzzFaults, c.Kind) && chance.one(int(odds)) {
			return errInjected
		}
		return nil
	})
	return p
}

// simPlace is the simulated device, whose streams finish when told to.
type simPlace struct {
	dev    *sim.Device
	odds   atomic.Int64
	chance *lockedRand
}

func (p *simPlace) device() device.Device    { return p.dev }
func (p *simPlace) driver() VirtualDriver    { return p.dev }
func (p *simPlace) setFaults(odds int)       { p.odds.Store(int64(odds)) }
func (p *simPlace) complete(s device.Stream) { p.dev.Complete(s.ID()) }

func (p *simPlace) close() error {
	if live := p.dev.Live(); live != (sim.Live{}) {
		return fmt.Errorf("the device lacks %+v", live)
	}
	return p.dev.Close()
}

// hostPlace is the host, whose driver calls fail on the way of the allocator only.
type hostPlace struct {
	*host.Device
	odds   atomic.Int64
	chance *lockedRand
}

func (p *hostPlace) device() device.Device  { return p.Device }
func (p *hostPlace) driver() VirtualDriver  { return p }
func (p *hostPlace) setFaults(odds int)     { p.odds.Store(int64(odds)) }
func (p *hostPlace) complete(device.Stream) {}

func (p *hostPlace) close() error {
	if err := p.Synchronize(context.Background()); err != nil {
		return err // a reader found something else
	}
	if count, bytes := p.Live(); count != 0 || bytes != 0 {
		return fmt.Errorf("the host lacks %d allocations of %d bytes", count, bytes)
	}
	return p.Close()
}

// fault is an error now and then.
func (p *hostPlace) fault() error {
	if odds := p.odds.Load(); odds > 0 && p.chance.one(int(odds)) {
		return errInjected
	}
	return nil
}

func (p *hostPlace) Malloc(n uint64) (device.Ptr, error) {
	if err := p.fault(); err != nil {
		return 0, err
	}
	return p.Device.Malloc(n)
}

func (p *hostPlace) Free(ptr device.Ptr) error {
	if err := p.fault(); err != nil {
		return err
	}
	return p.Device.Free(ptr)
}

func (p *hostPlace) Reserve(n uint64) (device.Ptr, error) {
	if err := p.fault(); err != nil {
		return 0, err
	}
	return p.Device.Reserve(n)
}

func (p *hostPlace) Map(ptr device.Ptr, n, page uint64) error {
	if err := p.fault(); err != nil {
		return err
	}
	return p.Device.Map(ptr, n, page)
}

func (p *hostPlace) Unmap(ptr device.Ptr, n uint64) error {
	if err := p.fault(); err != nil {
		return err
	}
	return p.Device.Unmap(ptr, n)
}

func (p *hostPlace) NewEvent() (device.Event, error) {
	if err := p.fault(); err != nil {
		return nil, err
	}
	return p.Device.NewEvent()
}

// asyncDriver is a stream-ordered allocator in its plainest form: a free waits for the stream.
type asyncDriver struct {
	VirtualDriver
	dev device.Device
}

func (d *asyncDriver) NewStream() (device.Stream, error)     { return d.dev.NewStream() }
func (d *asyncDriver) Synchronize(ctx context.Context) error { return d.dev.Synchronize(ctx) }
func (d *asyncDriver) StreamOrdered() bool                   { return true }
func (d *asyncDriver) TrimPool(uint64) error                 { return nil }

func (d *asyncDriver) AllocAsync(n uint64, _ device.Stream) (device.Ptr, error) { return d.Malloc(n) }

func (d *asyncDriver) FreeAsync(p device.Ptr, s device.Stream) error {
	if err := s.Synchronize(context.Background()); err != nil {
		return err
	}
	return d.Free(p)
}

func (d *asyncDriver) PoolUsage() (device.PoolUsage, error) {
	return device.PoolUsage{}, errors.ErrUnsupported
}

func (d *asyncDriver) ResetPoolPeaks() error { return errors.ErrUnsupported }
