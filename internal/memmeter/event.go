package memmeter

// Event is what becomes of a block or a segment, as a trace would have it.
type Event struct {
	Action  uint8
	Segment bool // a segment that is new, at this address
	Addr    uint64
	Bytes   uint64
	Stream  int64
	Pool    [2]uint64
}
