package memory

import "math"

// Config holds the settings of a caching allocator. The zero Config is PyTorch's default behaviour. ParseConfig reads one
// from PyTorch's text form, and String writes it back.
type Config struct {
	// MaxSplitBytes: blocks of at least this size are "oversize": never split, and never given to smaller requests.
	// 0 means no limit, else at least LargeSegmentBytes. Text: max_split_size_mb.
	MaxSplitBytes uint64
	// MaxNonSplitRoundingBytes: how much bigger than an oversize request the cached block that serves it may be.
	// 0 means LargeSegmentBytes, which is also the least allowed. Text: max_non_split_rounding_mb.
	MaxNonSplitRoundingBytes uint64
	// LargeSegmentBytes is the segment size for blocks between 1 and 10 MiB, and the page size of large expandable
	// segments. 0 means 20 MiB; it must be more than 10 MiB. Text: large_segment_size_mb.
	LargeSegmentBytes uint64
	// GarbageCollectionThreshold: when the reserved bytes pass this fraction of the memory limit, old cached blocks go back
	// to the driver before more is asked of it. 0 is off; else it lies between 0 and 1, and has an effect only together
	// with a memory limit. Text: garbage_collection_threshold.
	GarbageCollectionThreshold float64
	// RoundupDivisions divides each octave of sizes, [1 MiB, 2 MiB) first, into so many equally spaced block sizes; sizes
	// below 1 MiB follow the first entry. 0 and 1 are off; else powers of two. Text: roundup_power2_divisions.
	RoundupDivisions [roundupIntervals]uint
	// ExpandableSegments grows one virtual range per stream and pool instead of taking many segments, on devices with
	// virtual memory. Text: expandable_segments.
	ExpandableSegments bool
	// ReleaseLockOnMalloc lets other allocations that need the driver go on while one waits for it.
	// Text: release_lock_on_cudamalloc.
	ReleaseLockOnMalloc bool
	// MemoryFraction limits the reserved bytes to this fraction of the device's memory. Nil is no limit; else from 0 to 1.
	// Text: per_process_memory_fraction.
	MemoryFraction *float64
}

// policy is a Config as the allocator reads it: defaults filled in, immutable.
type policy struct {
	maxSplit     uint64 // unlimited when not set
	maxNonSplit  uint64
	largeSegment uint64
	gcThreshold  float64
	divisions    [roundupIntervals]uint
	roundup      bool // some division is more than 1
	expandable   bool
	releaseLock  bool
}

func newPolicy(c Config) *policy {
	p := &policy{
		maxSplit: c.MaxSplitBytes, maxNonSplit: c.MaxNonSplitRoundingBytes, largeSegment: c.LargeSegmentBytes,
		gcThreshold: c.GarbageCollectionThreshold, divisions: c.RoundupDivisions,
		expandable: c.ExpandableSegments, releaseLock: c.ReleaseLockOnMalloc,
	}
	if p.largeSegment == 0 {
		p.largeSegment = defaultLargeSegment
	}
	if p.maxSplit == 0 {
		p.maxSplit = unlimited
	}
	if p.maxNonSplit == 0 {
		p.maxNonSplit = p.largeSegment
	}
	for _, d := range p.divisions {
		p.roundup = p.roundup || d > 1
	}
	return p
}

// Validate reports the first setting that is out of range, as a *ConfigError.
func (c Config) Validate() error {
	large := c.LargeSegmentBytes
	if large == 0 {
		large = defaultLargeSegment
	}
	switch {
	case large <= largeThreshold:
		return configError(keyLargeSegment, mbText(large), "must be > 10 MB")
	case c.MaxSplitBytes != 0 && c.MaxSplitBytes < large:
		return configError(keyMaxSplit, mbText(c.MaxSplitBytes), "too small, must be >= "+mbText(large))
	case c.MaxNonSplitRoundingBytes != 0 && c.MaxNonSplitRoundingBytes < large:
		return configError(keyMaxNonSplit, mbText(c.MaxNonSplitRoundingBytes), "too small, must be >= "+mbText(large))
	case c.GarbageCollectionThreshold < 0 || c.GarbageCollectionThreshold >= 1 || math.IsNaN(c.GarbageCollectionThreshold):
		return configError(keyGC, floatText(c.GarbageCollectionThreshold), "set it in (0.0, 1.0)")
	case c.MemoryFraction != nil && !(*c.MemoryFraction >= 0 && *c.MemoryFraction <= 1):
		return configError(keyFraction, floatText(*c.MemoryFraction), "set it in [0.0, 1.0]")
	}
	for _, d := range c.RoundupDivisions {
		if d&(d-1) != 0 {
			return configError(keyRoundup, uintText(uint64(d)), "the divisions have to be powers of 2, or 0 to disable rounding")
		}
	}
	return nil
}
