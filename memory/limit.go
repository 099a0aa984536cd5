package memory

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/settings"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// SetMemoryFraction limits the bytes that the allocator may reserve to a fraction, from 0 to 1, of the device's total
// memory; 1 lifts the limit. Lowering it below what is reserved frees nothing, but nothing more is taken from the driver
// until enough has been given back. It does not see memory that other libraries or processes hold. Where Config.RejectOverFraction is set, requests are
// still refused above the fraction of the Config, as in PyTorch: SetConfig changes that.
func (a *Caching) SetMemoryFraction(fraction float64) error {
	if a.absent() {
		return argumentErr("SetMemoryFraction", text.NilAllocator)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.setFraction(fraction)
}

func (a *Caching) setFraction(fraction float64) error {
	if !(fraction >= 0 && fraction <= 1) {
		return configError(keyFraction, settings.FloatText(fraction), wantFraction)
	}
	a.limitInBytes.Store(false)
	if fraction == 1 {
		a.setLimit(unlimited)
		return nil
	}
	info, err := a.driver.MemInfo()
	if err != nil {
		return err
	}
	a.setLimit(uint64(math.Round(fraction * float64(info.Total))))
	return nil
}

// MemoryFraction returns the limit as a fraction of the device's memory: 1 if there is none.
func (a *Caching) MemoryFraction() (float64, error) {
	if a.absent() {
		return 0, argumentErr("MemoryFraction", text.NilAllocator)
	}
	limit := a.limit.Load()
	if limit == unlimited {
		return 1, nil
	}
	info, err := a.driver.MemInfo()
	if err != nil {
		return 0, err
	}
	return float64(limit) / float64(info.Total), nil
}

// SetMemoryLimit limits the bytes that the allocator may reserve; 0 lifts the limit. It replaces a memory fraction, but not
// the one that Config.RejectOverFraction goes by.
func (a *Caching) SetMemoryLimit(bytes uint64) {
	if a.absent() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes == 0 {
		bytes = unlimited
	}
	a.limitInBytes.Store(true)
	a.setLimit(bytes)
}

// MemInfo returns the driver's numbers for the whole device, all processes included.
func (a *Caching) MemInfo() (device.MemInfo, error) {
	if a.absent() {
		return device.MemInfo{}, argumentErr("MemInfo", text.NilAllocator)
	}
	return a.driver.MemInfo()
}
