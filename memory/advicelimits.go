package memory

import (
	"fmt"
	"math"
	"strconv"

	"github.com/cistern-ml/cistern/memory/internal/text"
)

// This file says which limit would have been enough for a request that failed. It is the least for that request: what follows may need more, and so it is
// said who holds the most.

// adviceOnLimits is for limits that keep a request from memory that the device has. Caller holds a.mu and no shard.
func (a *Caching) adviceOnLimits(e *OOMError, r *request) string {
	if !e.LimitHit || e.DeviceFree < r.wanted || r.shard.hasSource() { // what a source has nobody knows
		return ""
	}
	if e.Reserved+e.Tried > r.policy.rejectedAbove(e.DeviceTotal) { // without that limit there still is this one
		return ""
	}
	if pool := r.shard.pool; pool != nil && pool.overLimit(e.Tried) {
		enough := uint64(pool.reserved.All.Current) + pool.underway + e.Tried
		if all := e.Reserved + a.underway + e.Tried; all > a.limit.Load() { // neither is enough alone
			return fmt.Sprintf("Two limits are in the way: a PoolLimit of %s and a limit of %s (%s), both, would have been enough for this allocation.",
				text.Bytes(enough), text.Bytes(all), a.limitSetting(all, e.DeviceTotal)) + a.moreToCome()
		}
		if e.Hint != "" && enough > e.DeviceTotal { // pages that the pool has are counted twice, and it was said how to be rid of them
			return ""
		}
		e.EnoughLimit = enough
		return fmt.Sprintf("The pool has a limit of its own: a PoolLimit of %s would have been enough for this allocation.", text.Bytes(e.EnoughLimit)) + a.moreToCome()
	}
	e.EnoughLimit = e.Reserved + a.underway + e.Tried
	return fmt.Sprintf("The device has the memory: a limit of %s would have been enough for this allocation (%s).",
		text.Bytes(e.EnoughLimit), a.limitSetting(e.EnoughLimit, e.DeviceTotal)) + a.moreToCome()
}

// moreToCome goes with a limit. Caller holds a.mu and no shard.
func (a *Caching) moreToCome() string {
	return " " + joined("What follows may need more.", a.adviceOnHolders(1))
}

// limitSetting names what has set the limit, and the fraction of the device that would be so many bytes.
func (a *Caching) limitSetting(bytes, total uint64) string {
	if a.limitInBytes.Load() {
		return "SetMemoryLimit"
	}
	return "per_process_memory_fraction, SetMemoryFraction: " + fractionFor(bytes, total)
}

// fractionFor is a fraction with four digits of a device with total bytes that is enough for some, but for one of a device that has less.
func fractionFor(bytes, total uint64) string {
	const digits = 10000
	n := math.Ceil(float64(bytes) / float64(total) * digits)
	for n < digits && uint64(n/digits*float64(total)) < bytes { // as rejectedAbove rounds
		n++
	}
	return strconv.FormatFloat(min(n/digits, 1), 'f', -1, 64)
}

// adviceOnRejection is for a request that was refused before anything was given back: by the fraction of the settings, whatever the program has set since.
// Caller holds a.mu and no shard.
func (a *Caching) adviceOnRejection(e *OOMError, r *request) string {
	all, pool := e.Reserved+a.underway+e.Tried, r.shard.pool
	if pool != nil && pool.overLimit(e.Tried) || r.shard.hasSource() {
		return ""
	}
	freeable := uint64(0)
	for k := range poolKinds {
		for _, b := range a.freeBlocks(nil, k, (*block).plainWhole) {
			freeable += b.size
		}
	}
	if all-freeable <= min(e.Limit, a.limit.Load()) && r.wanted <= e.DeviceFree+freeable {
		return fmt.Sprintf("%s is cached, and EmptyCache gives it back, which makes room for this request.", text.Bytes(freeable))
	}
	if all > a.limit.Load() && a.limitInBytes.Load() || r.wanted > e.DeviceFree {
		return ""
	}
	e.EnoughLimit = e.Reserved + e.Tried
	return fmt.Sprintf("The device has the memory: a limit of %s would have been enough for this allocation (per_process_memory_fraction, SetConfig: %s; "+
		"SetMemoryFraction and SetMemoryLimit do not change what throw_on_cudamalloc_oom goes by).", text.Bytes(e.EnoughLimit),
		fractionFor(e.EnoughLimit, e.DeviceTotal)) + a.moreToCome()
}
