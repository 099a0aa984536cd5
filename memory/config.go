package memory

import (
	"math"

	"github.com/cistern-ml/cistern/memory/internal/settings"
)

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
	// RejectOverFraction refuses a request that would pass MemoryFraction at once, without giving the cache back first. As in PyTorch it goes by the
	// MemoryFraction of the Config, with none by no limit: SetMemoryFraction and SetMemoryLimit neither move nor lift that, SetConfig does.
	// Text: throw_on_cudamalloc_oom.
	RejectOverFraction bool
	// ExpandableReserve is the size of the address range that an expandable segment reserves: a fraction of the device's
	// memory, or bytes. The zero Reserve is 9/8 of the memory, which is also the most. Text: expandable_segments_reserve.
	ExpandableReserve Reserve
	// Compaction bounds what expandable segments waste: before pages are taken from the driver, and the reserved bytes would pass
	// this multiple of the most that was allocated at once, whole free pages are taken from the middle of the segments, of other
	// streams too, and put where they are needed. That waits for the work of the streams that lose pages, and for the events of freed
	// blocks. Pages have 2 MiB then. So that freed blocks that other streams used do not divide the free memory for long, their own stream is
	// made to wait for that work on the device, when it has been given a quarter of what it held at the free. A program must not make
	// that work wait for something that it does only after a wait for this stream.
	// 0 is off; else 1 or more, with ExpandableSegments. Text: expandable_segments_compaction.
	Compaction float64
	// CompactionBudget bounds how many pages move for Compaction: bytes that do are at most this part of the bytes that requests ask for. What a program has not used is left for
	// later, up to the most that was allocated at once. Where it is used up, reserved memory passes the bound. A page of 2 MiB that moves is four driver calls.
	// 0 is no budget: all pages move that must; else at most 1000. Text: expandable_segments_compaction_budget.
	CompactionBudget float64
	// ReuseInCapture lets memory freed during a graph capture serve the same capture again although other captured streams
	// used it, once the capture has joined them. Text: graph_capture_record_stream_reuse.
	ReuseInCapture bool
	// WaitOnDevice lets a freed block that other streams used serve its own stream before their work is done: when nothing cached
	// fits, and before the driver is asked, the stream is made to wait for them on the device. The processor does not wait. A program must
	// not make that work wait for something that it does only after a wait for this stream.
	// Text: record_stream_device_wait.
	WaitOnDevice bool
	// CrossStreamReclaim lets memory that is cached for one stream serve another one of the same pool before the driver is asked: whole free
	// segments, after a wait on the device, and of expandable segments the whole free pages of streams that have no work.
	// Text: cross_stream_reclaim.
	CrossStreamReclaim bool
	// SearchAfterSync searches the caches again when a request that would fail has waited for the events of freed blocks, before what
	// is cached goes back to the driver. Text: search_after_event_sync.
	SearchAfterSync bool
	// Backend chooses between this allocator (BackendNative) and the driver's stream-ordered one (BackendAsync). It is read
	// by For. Text: backend.
	Backend Backend

	// The settings of the pinned host allocator; see package memory/pinned. Text: the same words, pinned_..., sizes in MiB.
	PinnedUseHostRegister        bool   // take ordinary memory and register it with the driver
	PinnedNumRegisterThreads     int    // goroutines that touch the pages first; a power of two up to 128, 0 means 1
	PinnedUseBackgroundThreads   bool   // look at events in the background, not in Alloc
	PinnedReserveSegmentBytes    uint64 // take so much at once and cut pieces off it; 0 is off
	PinnedMaxRoundThresholdBytes uint64 // larger requests are not rounded up to a power of two; 0 is no limit
	PinnedMaxCachedBytes         uint64 // larger blocks are neither rounded nor cached; 0 is no limit
	PinnedFreeCatchAll           bool   // errors of the driver when freeing are ignored, for shutdown
}

// Backend is where device memory comes from.
type Backend uint8

// The backends.
const (
	BackendNative Backend = iota // the caching allocator of this package
	BackendAsync                 // the driver's stream-ordered allocator: cudaMallocAsync
)

// String is the name in settings.
func (b Backend) String() string {
	if b == BackendAsync {
		return "cudaMallocAsync"
	}
	return "native"
}

// Reserve is the size of an address range: Bytes if that is not 0, else Fraction of the device's memory, and 9/8 of it if
// both are 0.
type Reserve struct {
	Fraction float64
	Bytes    uint64
}

// of returns the size for a device with total bytes: never more than 9/8 of it.
func (r Reserve) of(total uint64) uint64 {
	most := total + total/8
	switch {
	case r.Bytes != 0:
		return min(r.Bytes, most)
	case r.Fraction != 0:
		return uint64(min(r.Fraction*float64(total), float64(most)))
	}
	return most
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
	force        bool // split also in pools that hand out whole segments
	reuse        bool // of blocks freed in a capture
	releaseLock  bool
	reserve      Reserve
	compaction   float64 // 0 is off
	moveBudget   float64 // of the bytes that are asked for; 0 is none
	rejectAbove  float64 // fraction above which requests are refused at once; 1 is never
	deviceWait   bool    // for blocks that other streams used
	reclaim      bool    // from other streams
	searchAgain  bool    // after a wait for events
}

func newPolicy(c Config) *policy {
	p := &policy{
		maxSplit: c.MaxSplitBytes, maxNonSplit: c.MaxNonSplitRoundingBytes, largeSegment: c.LargeSegmentBytes,
		gcThreshold: c.GarbageCollectionThreshold, divisions: c.RoundupDivisions,
		expandable: c.ExpandableSegments, reuse: c.ReuseInCapture, releaseLock: c.ReleaseLockOnMalloc, reserve: c.ExpandableReserve, compaction: c.Compaction, moveBudget: c.CompactionBudget, rejectAbove: 1,
		deviceWait: c.WaitOnDevice, reclaim: c.CrossStreamReclaim, searchAgain: c.SearchAfterSync,
	}
	if c.RejectOverFraction && c.MemoryFraction != nil {
		p.rejectAbove = *c.MemoryFraction
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
	gc, threads := c.GarbageCollectionThreshold, uint64(c.PinnedNumRegisterThreads)
	switch {
	case large <= largeThreshold:
		return configError(keyLargeSegment, settings.MBText(large), "must be > 10 MB")
	case large >= maxRequest:
		return configError(keyLargeSegment, settings.MBText(large), "no device has so much memory")
	case c.MaxSplitBytes != 0 && c.MaxSplitBytes < large:
		return configError(keyMaxSplit, settings.MBText(c.MaxSplitBytes), "too small, must be >= "+settings.MBText(large))
	case c.MaxNonSplitRoundingBytes != 0 && c.MaxNonSplitRoundingBytes < large:
		return configError(keyMaxNonSplit, settings.MBText(c.MaxNonSplitRoundingBytes), "too small, must be >= "+settings.MBText(large))
	case !(gc >= 0 && gc < 1):
		return configError(keyGC, settings.FloatText(gc), wantGC)
	case c.MemoryFraction != nil && !(*c.MemoryFraction >= 0 && *c.MemoryFraction <= 1):
		return configError(keyFraction, settings.FloatText(*c.MemoryFraction), wantFraction)
	case !(c.ExpandableReserve.Fraction >= 0 && c.ExpandableReserve.Fraction <= math.MaxFloat64):
		return configError(keyReserve, settings.FloatText(c.ExpandableReserve.Fraction), wantReserve)
	case c.Compaction != 0 && !(c.Compaction >= 1 && c.Compaction <= maxCompaction):
		return configError(keyCompaction, settings.FloatText(c.Compaction), wantCompaction)
	case !(c.CompactionBudget >= 0 && c.CompactionBudget <= maxCompaction):
		return configError(keyMoveBudget, settings.FloatText(c.CompactionBudget), wantMoveBudget)
	case threads != 0 && !settings.PowerOfTwo(threads):
		return configError(keyRegisterThreads, settings.UintText(threads), "number of register threads has to be a power of 2")
	case threads > 128:
		return configError(keyRegisterThreads, settings.UintText(threads), "number of register threads should be less than or equal to 128")
	case c.Backend > BackendAsync:
		return configError(keyBackend, settings.UintText(uint64(c.Backend)), wantBackend)
	}
	for _, d := range c.RoundupDivisions {
		if d != 0 && !settings.PowerOfTwo(uint64(d)) {
			return configError(keyRoundup, settings.UintText(uint64(d)), "the divisions have to be powers of 2, or 0 to disable rounding")
		}
	}
	return nil
}
