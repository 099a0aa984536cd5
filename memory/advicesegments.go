package memory

import (
	"fmt"

	"github.com/cistern-ml/cistern/memory/internal/text"
)

// This file is for requests that fail for what the device is asked for in their place: a segment, which is larger, or one piece.

// adviceOnSegments is for a request whose segment the device has no room for, and has for a smaller one. Caller holds a.mu.
func (a *Caching) adviceOnSegments(e *OOMError, r *request) string {
	const least = 11 * mib
	c, pool := a.config, r.shard.pool
	c.LargeSegmentBytes = least
	if r.policy.expandable || r.shard.hasSource() || r.size <= smallLimit || r.size >= largeThreshold || e.Tried != r.policy.largeSegment || e.Tried <= least || c.Validate() != nil {
		return ""
	}
	reserved := e.Reserved + a.underway + least
	if e.DeviceFree < least || reserved > min(a.limit.Load(), r.policy.rejectedAbove(e.DeviceTotal)) || pool != nil && pool.overLimit(least) {
		return ""
	}
	return fmt.Sprintf("There is room for a smaller segment: with large_segment_size_mb:11, by SetConfig now or from the start on, this request of %s is served.", text.Bytes(r.bytes))
}

// adviceOnRefusal is for a device that reports as much free memory as it refuses. Caller holds a.mu.
func (a *Caching) adviceOnRefusal(e *OOMError, r *request) string {
	if e.LimitHit || r.shard.hasSource() || e.DeviceFree < r.wanted {
		return ""
	}
	advice := fmt.Sprintf("The device reports that %s is free, and refused %s: what it has is in pieces, or its driver has another limit, or it was freed since.",
		text.Bytes(e.DeviceFree), text.Bytes(r.wanted))
	if d, ok := a.driver.(VirtualDriver); ok && d.Granularity() != 0 && !r.policy.expandable {
		advice += " expandable_segments:True, which asks for pages in place of one piece, may serve it in the first case."
	}
	return advice
}
