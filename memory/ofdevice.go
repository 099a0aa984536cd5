package memory

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// Functions of a device, as torch.cuda has them: they ask the allocator that For keeps for it. Numbers of a device that has none yet are 0,
// and there is nothing to empty or to reset; the others make the allocator as For does.

// Allocated returns the bytes that tensors and others hold now: torch.cuda.memory_allocated.
func Allocated(dev device.Device) uint64 { return uint64(statsOf(dev).AllocatedBytes.All.Current) }

// MaxAllocated returns the most bytes that were held at one time since the start, or since ResetPeak: torch.cuda.max_memory_allocated.
func MaxAllocated(dev device.Device) uint64 { return uint64(statsOf(dev).AllocatedBytes.All.Peak) }

// Reserved returns the bytes that the allocator has of the driver, in use and cached: torch.cuda.memory_reserved.
func Reserved(dev device.Device) uint64 { return uint64(statsOf(dev).ReservedBytes.All.Current) }

// MaxReserved returns the most bytes that the allocator had at one time since the start, or since ResetPeak: torch.cuda.max_memory_reserved.
func MaxReserved(dev device.Device) uint64 { return uint64(statsOf(dev).ReservedBytes.All.Peak) }

// statsOf returns the statistics of a device's allocator, or zeros.
func statsOf(dev device.Device) Stats {
	if text.NoDevice(dev) {
		return Stats{}
	}
	a := lookup(dev)
	if a == nil {
		return Stats{}
	}
	return a.Stats()
}

// ResetPeak makes the peaks of all statistics what they are now: torch.cuda.reset_peak_memory_stats. It fails for an allocator that keeps no
// peaks of its own, which is an *ArgumentError.
func ResetPeak(dev device.Device) error {
	const call = "ResetPeak"
	if text.NoDevice(dev) {
		return argumentErr(call, text.NilDevice)
	}
	switch a := lookup(dev).(type) {
	case nil:
		return nil
	case interface{ ResetPeakStats() }:
		a.ResetPeakStats()
		return nil
	case interface{ ResetPeakStats() error }:
		return a.ResetPeakStats()
	}
	return argumentErr(call, "the allocator of %s keeps its peaks", dev.ID())
}

// EmptyCache gives what the device's allocator has cached back to the driver: torch.cuda.empty_cache. The errors are those of
// Allocator.EmptyCache.
func EmptyCache(dev device.Device) error {
	if text.NoDevice(dev) {
		return argumentErr("EmptyCache", text.NilDevice)
	}
	if a := lookup(dev); a != nil {
		return a.EmptyCache()
	}
	return nil
}

// SetFraction limits what the allocator may reserve to a part of the device's memory, from 0 to 1: torch.cuda.set_per_process_memory_fraction. The error is
// one of For, a *ConfigError, or an *ArgumentError if the allocator has no limits.
func SetFraction(dev device.Device, fraction float64) error {
	a, err := needed[interface{ SetMemoryFraction(float64) error }]("SetFraction", dev, "limits")
	if err != nil {
		return err
	}
	return a.SetMemoryFraction(fraction)
}

// RecordHistory begins to record what the device's allocator does, and where: torch.cuda.memory._record_memory_history. The zero options are
// the usual ones. See Caching.RecordHistory. The error is one of For, a *ConfigError, or an *ArgumentError if the allocator has no history.
func RecordHistory(dev device.Device, o HistoryOptions) error {
	a, err := needed[interface{ RecordHistory(HistoryOptions) error }]("RecordHistory", dev, "history")
	if err != nil {
		return err
	}
	return a.RecordHistory(o)
}

// StopHistory ends what RecordHistory has begun, and forgets what was recorded.
func StopHistory(dev device.Device) {
	if text.NoDevice(dev) {
		return
	}
	if a, ok := lookup(dev).(interface{ StopHistory() }); ok {
		a.StopHistory()
	}
}

// needed returns the device's allocator, made if there is none yet, as something that has what call wants.
func needed[T any](call string, dev device.Device, what string) (T, error) {
	var none T
	if text.NoDevice(dev) {
		return none, argumentErr(call, text.NilDevice)
	}
	a, err := For(dev)
	if err != nil {
		return none, err
	}
	if t, ok := a.(T); ok {
		return t, nil
	}
	return none, argumentErr(call, "the allocator of %s, a %T, has no %s", dev.ID(), a, what)
}
