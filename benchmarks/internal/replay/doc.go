// Package replay runs an allocation trace through an allocator and reports what PyTorch's allocator reports for the same
// trace: statistics, driver calls, hashes of every decision, and samples over time.
//
//	t, err := trace.Open("gpt.trace.gz")
//	r, err := replay.Run(t, replay.Options{Capacity: 80 * device.GiB})
//
//	replay.go      a replay, event by event
//	machine.go     the device under it; simulated.go and recorder.go implement it
//	result.go      what is found, and its JSON
//	expect.go      files of numbers recorded from PyTorch's allocator; difference.go compares
//	program.go     a trace in the form that timing loops want
//
// # Hashes
//
// Two allocators that make the same decisions have the same hashes, FNV-1a 64 over lines of text. Placement: "a id segment
// offset" per allocation, or "a id oom". Driver: the lines of sim.Call.LogLine. The memory at the end: "S segment offset
// bytes stream pool" per segment and "B bytes allocated active" per block. Segments are named by their number in the order
// in which the driver made them, so none of this depends on addresses.
package replay
