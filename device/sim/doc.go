// Package sim is a device that has addresses and no storage. Programs run on it without arithmetic, to learn how much memory
// they would need; allocators are tested on it, because it shows and controls what a real driver hides.
//
// # Memory
//
// A device has a capacity and an address space that never ends. What Malloc and Reserve return are segments, numbered 0, 1,
// 2, ... in the order of success. Addresses rise with the numbers, are aligned to 2 MiB, and are never used again, so an
// address that was freed stays wrong for good. Allocations, each rounded up to 512 bytes, and the pages mapped into reserved
// ranges count against the capacity. All of this depends on nothing but the order of calls.
//
// Copies and fills check that they stay inside live memory, and do nothing. CopyToHost gives zeros. Functions submitted to
// a stream are counted and dropped.
//
// # Streams
//
// By default, what is enqueued on a stream is finished at once. With ManualStreams nothing is finished until the test says so, by
// Complete, or until somebody waits for it: waiting for an event or a stream finishes that stream up to that point, and the
// points of other streams that it in turn waits for. Recording an event enqueues something on a stream, too.
//
//	s.Record(e)              e.Done() is false
//	dev.Complete(s.ID())     e.Done() is true
//
// # Driver calls
//
// Each call is counted (Calls), costs the time that Costs says (Elapsed adds it up; nobody sleeps), can be made to fail
// (FailNext, Inject), and is shown to OnCall in the order in which the device saw it. Call.LogLine writes the line of the
// driver log by which replays are compared. Live counts what was handed out and not given back.
//
// One lock guards a device. It is held during the functions given to OnCall and Inject, which must not call the device.
package sim
