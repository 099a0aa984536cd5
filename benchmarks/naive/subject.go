package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/cuda" // devices that -device names
	_ "github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// subject is an allocator that is measured, as the settings that a program chooses it with.
type subject struct {
	name     string
	settings string // of CISTERN_ALLOC_CONF
	direct   bool   // CISTERN_NO_MEMORY_CACHING=1
	async    bool   // only where the driver has a pool
}

var subjects = []subject{
	{name: "direct", direct: true},
	{name: "async", settings: "backend:cudaMallocAsync", async: true},
	{name: "caching"},
	{name: "expandable", settings: "expandable_segments:True"},
}

// on lists the subjects that a kind of device has.
func on(kind device.Kind) (list []subject) {
	for _, s := range subjects {
		if !s.async || kind == device.CUDA {
			list = append(list, s)
		}
	}
	return list
}

// variables are those that memory.For looks at first; they hide PyTorch's.
func (s subject) variables() map[string]string {
	off := "0"
	if s.direct {
		off = "1"
	}
	return map[string]string{"CISTERN_ALLOC_CONF": s.settings, "CISTERN_NO_MEMORY_CACHING": off, "PYTORCH_NO_CUDA_MEMORY_CACHING": "0"}
}

// place is a device with the subject's allocator as the one that memory.For gives.
type place struct {
	dev   device.Device
	alloc memory.Allocator
}

// open makes the place. The settings go by the environment, as a user's do: training takes what memory.For gives.
func (s subject) open(spec string, costs assumed) (p *place, err error) {
	dev, err := device.Open(spec)
	if err != nil {
		return nil, err
	}
	if d, ok := dev.(*sim.Device); ok {
		d.SetCosts(costs.table())
	}
	for name, value := range s.variables() {
		old, set := os.LookupEnv(name)
		if err := os.Setenv(name, value); err != nil {
			return nil, errors.Join(err, dev.Close())
		}
		defer func() {
			if set {
				err = errors.Join(err, os.Setenv(name, old))
			} else {
				err = errors.Join(err, os.Unsetenv(name))
			}
		}()
	}
	alloc, err := memory.For(dev)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", s.name, err), dev.Close())
	}
	return &place{dev: dev, alloc: alloc}, nil
}

// close gives everything back, and reports blocks that are still in use.
func (p *place) close() error { return errors.Join(memory.Drop(p.dev), p.dev.Close()) }

// driverTime is the simulated time so far, 0 on devices that take real time.
func (p *place) driverTime() time.Duration {
	if d, ok := p.dev.(*sim.Device); ok {
		return d.Elapsed()
	}
	return 0
}

// assumed is what driver calls cost on a simulated device. Nobody measured these numbers.
type assumed struct {
	malloc, free, event, page time.Duration
}

func (a assumed) valid() bool { return min(a.malloc, a.free, a.event, a.page) >= 0 }

// table spreads them over the driver's calls. Copies and kernels cost nothing: they are the same for all allocators.
func (a assumed) table() (c sim.Costs) {
	c[sim.CallMalloc], c[sim.CallFree] = a.malloc, a.free
	for _, kind := range []sim.CallKind{sim.CallStreamQuery, sim.CallStreamSync, sim.CallStreamWait, sim.CallEventCreate,
		sim.CallEventClose, sim.CallEventRecord, sim.CallEventQuery, sim.CallEventSync} {
		c[kind] = a.event
	}
	c[sim.CallPageMap], c[sim.CallPageUnmap] = a.page, a.page // each with the creation and release of its page
	return c
}

func (a assumed) String() string {
	return fmt.Sprintf("malloc %v, free %v, event and stream calls %v, mapping and unmapping a page %v", a.malloc, a.free, a.event, a.page)
}
