package safetensors

import (
	"bytes"
	"fmt"
	"hash/crc32"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

const (
	kindKey = "cistern.checksum"
	kind    = "crc32c"
	sumKey  = "cistern.crc32c"
	noSum   = "00000000" // what stands for the checksum while it is computed
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// place is where in a header the checksum is, given its value; -1 if it is not there once, as this package writes it. Quotes within
// texts are escaped, so these are the key's own.
func place(raw []byte, value string) int {
	before := []byte(`"` + sumKey + `":"`)
	if bytes.Count(raw, before) != 1 {
		return -1
	}
	at := bytes.Index(raw, before) + len(before)
	if !bytes.HasPrefix(raw[at:], []byte(value+`"`)) {
		return -1
	}
	return at
}

// takeChecksum moves the checksum from metadata and bytes to where it belongs.
func (h *Header) takeChecksum() error {
	named, marked := h.Metadata[kindKey]
	value, there := h.Metadata[sumKey]
	if !marked && !there {
		return nil
	}
	if named != kind || len(value) != len(noSum) {
		return &Error{Detail: "the checksum", Wanted: fmt.Sprintf("%q and 8 digits", kind), Found: excerpt.Quote(named) + " and " + excerpt.Quote(value)}
	}
	at := place(h.raw, value)
	if at < 0 {
		return unsound("the checksum is not where its writer puts it: the header was changed")
	}
	copy(h.raw[at:], noSum)
	h.sum = value
	delete(h.Metadata, kindKey)
	delete(h.Metadata, sumKey)
	return nil
}

func digits(sum uint32) string { return fmt.Sprintf("%08x", sum) }
