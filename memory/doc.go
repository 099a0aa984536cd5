// Package memory hands out a device's memory: fast, without a driver call in the steady state, and with PyTorch's policy to
// the byte. Given the same requests and settings as PyTorch's CUDA caching allocator, Caching places every block where
// that would, makes the same driver calls in the same order, and reports the same statistics.
//
// Callers need four calls:
//
//	a, err := memory.For(dev)          // the device's allocator, settings from the environment
//	b, err := a.Alloc(bytes, stream)   // a block for use on that stream
//	err = a.RecordStream(b, other)     // another stream uses it too
//	err = a.Free(b)                    // at once, without waiting for the device
//
// # The parts
//
// A segment is one piece of memory got from the driver. A block is a piece of a segment; blocks follow each other without
// gap, linked by prev and next, and fill it. Every stream has a shard, and every shard two pools of free blocks: small, for
// blocks up to 1 MiB, and large. A pool's index orders its blocks by size, then age of the segment, then address, and finds
// the best fit in a few bit scans.
//
//	segment 7  20 MiB  large pool  stream 2
//	| 4 MiB allocated | 1.5 MiB cached | 6 MiB pending (2 events) | 8.5 MiB cached |
//	  head, prev = nil                                              next = nil
//
// The small pool takes segments of 2 MiB from the driver, the large pool segments of 20 MiB, and blocks of 10 MiB and more
// get a segment made to measure, rounded up to 2 MiB. So almost every request is served by cutting up what is there.
//
// # The walk of an Alloc
//
//  1. If frees wait for events or were queued by FreeLater, look after them (events.go, internal/eventqueue, deferredfrees.go). With
//     compaction, have the stream itself wait for what has been pending for long (overdue.go).
//  2. Round the size up to 512 bytes, or as roundup_power2_divisions says (size.go). Up to 1 MiB is small.
//  3. Take the smallest block of the stream's pool that is large enough (index.go). If it is much larger, cut off the rest,
//     which stays in the pool (shard.go). This is the usual end: one lock, no Go heap allocation.
//  4. Nothing fits: lock the driver's side (ladder.go) and climb the ladder. If settings say so, take what only other streams'
//     work keeps from this one (devicewait.go), or what another stream does not need (crossstream.go). Run the callbacks of OnLowMemory; free
//     old segments if the garbage collection threshold is passed (reclaim.go); ask the driver (driver.go), or map pages
//     into an expandable segment (expandable.go); give back just enough oversize blocks and ask again; wait for all
//     events, give the whole cache back, and ask once more.
//  5. An *OOMError with the numbers and what would have helped (oom.go).
//
// # The walk of a Free
//
//  1. The handle is checked: stale and foreign ones are errors, not corruption.
//  2. If other streams were recorded, an event is enqueued on each, and the block is pending until all have completed.
//  3. The block merges with its free neighbours and enters the pool. Memory goes back to the driver only by the ladder and
//     by EmptyCache, and only whole segments do, or whole pages of expandable ones.
//
// Reuse without waiting is safe because it is ordered: memory freed on a stream is only ever given to the same stream, where
// the work that used it comes before the work that will. With cross_stream_reclaim another stream may get it, which is ordered behind the first by an
// event, on the device; and with record_stream_device_wait, or with compaction after a while, a pending block its own stream, ordered behind the events.
//
// # States of a block
//
//	          Alloc                     Free, no other stream
//	cached ----------> allocated ------------------------------> cached
//	  ^                    |  Free, other streams recorded
//	  |   events complete  v
//	  +---------------- pending
//
//	cached    -> merged into a neighbour, or split; given back to the driver if it is the whole segment
//	unmapped <-> cached, in expandable segments: pages are mapped by the ladder, unmapped by EmptyCache
//	pending  --> cached before the events complete, with record_stream_device_wait or compaction: the stream waits for them on the device
//
// # Invariants
//
//   - reserved is the sum of the segments, mapped pages only for expandable ones
//   - a segment is exactly its blocks
//   - allocated + pending + cached = reserved
//   - no two neighbours are both cached, or both unmapped
//   - an index holds exactly the cached blocks of its stream and pool, in order
//   - a pending block waits for exactly as many events as are queued for it
//
// They are checked by the function check: after each step of the unit tests, after each operation when fuzzing, and after
// public calls in builds with the tag "invariants" (invariants_on.go).
//
// # Locks
//
// In this order, each optional: Caching.reading (snapshots in pieces), Caching.mu (the driver's side: segments, limits, everything that looks at several streams),
// events.mu, peaks.mu, the shards' locks in the order of their streams, and then the small ones (oversize.mu, deferredFrees.mu,
// those of the journal and of the table of stacks).
// The driver is called under Caching.mu, so streams that are served from their caches never wait for it; the exceptions
// are the virtual-memory calls of expandable segments, for which the shard stays locked (see expand), and recording and
// asking events, which is done under events.mu.
//
// Statistics are counted by shard; exact peaks over all shards come from leases (tally.go).
//
// # Callbacks
//
// A program can have the allocator call it. A panic of what it calls passes through to who called the allocator; the call has
// then done nothing, or for observers of OnOOM all that it does, the allocator goes on, and no memory is lost.
//
//	called                       may call of the same allocator          may be called by several goroutines at once
//	OnLowMemory                  everything but Close                    no; see there
//	OnOOM                        everything but Close                    yes
//	OnRelease                    everything but Close                    yes
//	Source.Malloc of a pool      everything but Close                    yes
//	Source.Free of a pool        Free, FreeLater, RecordStream, Device   no
//	filter of BeginRoute         everything but Alloc and Close          yes
//	work of CaptureGraph         everything but Close                    no
//	begin of CaptureKeeping      everything but Close                    no
//
// # Captures
//
// Work that is captured into a graph (capture.go) does not run, so its events never complete. A block that is freed in a
// capture which uses it is free when the capture ends; or, with graph_capture_record_stream_reuse, when the block's stream comes after the use in
// the graph (reuse.go). One that is freed later waits for the replays on the stream of the use, as for other work. A graph's memory is that of a private pool, whose layout can be noted and put back (checkpoint.go).
//
// # History
//
// RecordHistory keeps what the allocator does, with Go call stacks (history.go, notes.go, internal/journal). A Snapshot then has,
// besides the state, how it came about; DumpSnapshot makes a file of it that PyTorch's memory viewer opens, or one that
// draws itself (drawing.go); BlockErrors
// name the places of the allocation and of the first free; package memprof makes pprof profiles. OnOOM is the moment to
// take a snapshot, OnRelease to hear of retries; package memlog writes both to a log. Off, it costs two loads and branches a call. On, a pair of Alloc and Free takes 80 to 200 ns more,
// depending on the context, and the newest entries are kept, 40 bytes each. A Snapshot holds the locks for a copy, about
// a millisecond for 100,000 entries. Who looks often reads the state in pieces instead (pieces.go).
//
// # Plans
//
// A Plan serves a step that was learned from fixed places (planned.go). What a stream's steps ask for is recorded (steps.go); a
// recording becomes a program (stepprogram.go), which package plan places in the background, partly in free blocks that the plan borrows
// from the segments (lend.go) and else in an arena (arena.go); programs that begin alike have what they share in the same places
// (agree.go). A place is a proposal: whether it is free is looked at for each
// request, and the caching allocator serves what the plan does not. All of it is guarded by the shard's lock, and grows and shrinks
// under Caching.mu.
//
// # Limits
//
// A stream's free memory never serves another stream, unless the first was closed (inherit.go) or cross_stream_reclaim is set. One live block keeps its segment from the driver. Events are looked
// at by Alloc only: without one, pending memory stays pending. All three are PyTorch's behaviour.
package memory
