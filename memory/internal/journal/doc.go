// Package journal records what an allocator does: the newest entries of its trace, with the call stacks of those who called it.
//
// An allocator has several logs, one for each of its locks. A log is written under that lock, together with the change that the
// entry is about, and takes no other lock but once in 256 entries; so recording does not bring streams together that the allocator
// keeps apart. Numbers put the entries of all logs into one order.
package journal
