package memprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cistern-ml/cistern/memory"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("cistern", "memory", name), help, append([]string{"device"}, labels...), nil)
}

var private = desc("private_reserved_bytes", "Memory got from the driver for a private pool.", "pool")

// The values of a statistic that Prometheus wants.
func current(s memory.Stat) int64   { return s.Current }
func increases(s memory.Stat) int64 { return s.Allocated }
func decreases(s memory.Stat) int64 { return s.Freed }

// byPool are the statistics that are kept for small and for large blocks.
var byPool = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	array func(*memory.Stats) *memory.StatArray
	value func(memory.Stat) int64
}{
	{desc("allocated_bytes", "Memory that callers hold.", "pool"), prometheus.GaugeValue,
		func(s *memory.Stats) *memory.StatArray { return &s.AllocatedBytes }, current},
	{desc("active_bytes", "Memory that callers hold, or have freed while other streams use it.", "pool"), prometheus.GaugeValue,
		func(s *memory.Stats) *memory.StatArray { return &s.ActiveBytes }, current},
	{desc("requested_bytes", "Active memory as it was asked for, before sizes were rounded.", "pool"), prometheus.GaugeValue,
		func(s *memory.Stats) *memory.StatArray { return &s.RequestedBytes }, current},
	{desc("reserved_bytes", "Memory got from the driver.", "pool"), prometheus.GaugeValue,
		func(s *memory.Stats) *memory.StatArray { return &s.ReservedBytes }, current},
	{desc("inactive_split_bytes", "Free pieces of segments that are in part in use.", "pool"), prometheus.GaugeValue,
		func(s *memory.Stats) *memory.StatArray { return &s.InactiveSplitBytes }, current},
	{desc("blocks", "Blocks that callers hold.", "pool"), prometheus.GaugeValue,
		func(s *memory.Stats) *memory.StatArray { return &s.Allocation }, current},
	{desc("segments", "Driver allocations alive.", "pool"), prometheus.GaugeValue,
		func(s *memory.Stats) *memory.StatArray { return &s.Segment }, current},
	{desc("allocations_total", "Blocks handed out.", "pool"), prometheus.CounterValue,
		func(s *memory.Stats) *memory.StatArray { return &s.Allocation }, increases},
	{desc("frees_total", "Blocks given back.", "pool"), prometheus.CounterValue,
		func(s *memory.Stats) *memory.StatArray { return &s.Allocation }, decreases},
}

// ofDevice are those of a whole device.
var ofDevice = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*memory.Stats) int64
}{
	{desc("allocated_peak_bytes", "The most memory that callers held at one time."), prometheus.GaugeValue,
		func(s *memory.Stats) int64 { return s.AllocatedBytes.All.Peak }},
	{desc("reserved_peak_bytes", "The most memory that was got from the driver at one time."), prometheus.GaugeValue,
		func(s *memory.Stats) int64 { return s.ReservedBytes.All.Peak }},
	{desc("ooms_total", "Requests that failed for want of memory."), prometheus.CounterValue,
		func(s *memory.Stats) int64 { return s.NumOOMs }},
	{desc("retries_total", "Requests that first had the whole cache emptied."), prometheus.CounterValue,
		func(s *memory.Stats) int64 { return s.NumAllocRetries }},
	{desc("driver_allocations_total", "Calls of the driver for memory."), prometheus.CounterValue,
		func(s *memory.Stats) int64 { return s.NumDeviceAlloc }},
	{desc("driver_frees_total", "Calls of the driver that gave memory back."), prometheus.CounterValue,
		func(s *memory.Stats) int64 { return s.NumDeviceFree }},
	{desc("deferred_frees_total", "Blocks that the garbage collector had to find, as nobody released them."), prometheus.CounterValue,
		func(s *memory.Stats) int64 { return s.NumDeferredFrees }},
}
