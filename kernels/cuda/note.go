package cuda

import "encoding/binary"

// note is what complain in src/base.h writes.
type note struct {
	set   bool
	index int64
	place uint64 // of the index among the indices, or of the element that it was read for
}

func decodeNote(raw [noteBytes]byte) note {
	return note{
		set:   binary.LittleEndian.Uint64(raw[0:]) != 0,
		index: int64(binary.LittleEndian.Uint64(raw[8:])),
		place: binary.LittleEndian.Uint64(raw[16:]),
	}
}
