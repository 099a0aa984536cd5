// Package memprom gives the statistics of device memory to Prometheus.
//
//	prometheus.MustRegister(memprom.New())
//	http.Handle("/metrics", promhttp.Handler())
//
// Sizes are in bytes. The label device is a device's name, such as cuda:0, and pool is small, large or, for private pools, the pool's number. Allocators
// without these pools, memory.Direct and memory.Async, have one series in the place of two, whose pool is all: sums over the pools are right for each.
//
//	cistern_memory_allocated_bytes            what callers hold, by size of block
//	cistern_memory_allocated_peak_bytes       the most of it so far, of the device
//	cistern_memory_active_bytes               that, and what is freed and waits for other streams
//	cistern_memory_requested_bytes            the active bytes before they were rounded
//	cistern_memory_reserved_bytes             what was got from the driver
//	cistern_memory_reserved_peak_bytes        the most of it so far, of the device
//	cistern_memory_private_reserved_bytes     the part of it that is a private pool's
//	cistern_memory_inactive_split_bytes       free pieces of segments that are in part in use: fragmentation
//	cistern_memory_blocks                     blocks that callers hold
//	cistern_memory_segments                   driver allocations alive
//	cistern_memory_allocations_total          blocks handed out
//	cistern_memory_frees_total                blocks given back
//	cistern_memory_ooms_total                 requests that failed for want of memory
//	cistern_memory_retries_total              requests that first had the whole cache emptied
//	cistern_memory_driver_allocations_total   calls of the driver for memory
//	cistern_memory_driver_frees_total         and to give it back
//	cistern_memory_deferred_frees_total       blocks that the garbage collector had to find
//
// What to watch: rate(cistern_memory_driver_allocations_total[5m]) is 0 in a steady training loop; retries that grow cost time;
// reserved - allocated is the cache.
package memprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
)

// New is a collector of the statistics of some allocators, one for each device, or, if none are given, of all that memory.For keeps at
// the time of a scrape. Nil allocators are left out, nil pointers too. Two allocators of one device would have the same labels, which a registry refuses when
// it gathers. A scrape takes the allocators' locks for a moment, as Stats does.
func New(allocators ...memory.Allocator) prometheus.Collector {
	if len(allocators) == 0 {
		return collector(memory.Allocators)
	}
	return collector(func() []memory.Allocator { return allocators })
}

// collector is where the allocators come from.
type collector func() []memory.Allocator

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range byPool {
		to <- m.desc
	}
	for _, m := range ofDevice {
		to <- m.desc
	}
	to <- private
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, a := range c() {
		if !isnil.Value(a) {
			s := a.Stats()
			collect(a.Device().String(), s, divides(a, &s), to)
		}
	}
}

// divides reports whether an allocator keeps its statistics by pool. Of one that is not ours the numbers tell.
func divides(a memory.Allocator, s *memory.Stats) bool {
	switch a.(type) {
	case *memory.Direct, *memory.Async:
		return false
	}
	return s.Allocation.Divided()
}

func collect(device string, s memory.Stats, divided bool, to chan<- prometheus.Metric) {
	for _, m := range byPool {
		send := func(pool string, s memory.Stat) {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.value(s)), device, pool)
		}
		if array := m.array(&s); divided {
			send("small", array.SmallPool)
			send("large", array.LargePool)
		} else {
			send("all", array.All)
		}
	}
	for _, m := range ofDevice {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.value(&s)), device)
	}
	for id, array := range s.ReservedBytesByPrivatePools {
		name, err := id.MarshalText()
		if err != nil || array.All.Current == 0 { // pools that are gone stay in the statistics
			continue
		}
		to <- prometheus.MustNewConstMetric(private, prometheus.GaugeValue, float64(array.All.Current), device, string(name))
	}
}
