package mpi

import (
	"bytes"

	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// scratchBytes is how large the pieces are in which collectives go through scratch memory. Tests make it less.
var scratchBytes = 4 << 20

// scratch is memory outside Go's heap that MPI may use while a collective is under way: the request, and two areas that grow as needed.
type scratch struct {
	request      uintptr
	first, other area
}

type area struct {
	start uintptr
	size  uint64
}

// reserve takes the page of the request.
func (s *scratch) reserve() (err error) {
	s.request, err = osmem.Alloc(osmem.PageSize())
	return err
}

// recv is one area of n bytes, with whatever is in it.
func (s *scratch) recv(n uint64) ([]byte, error) { return s.other.bytes(n) }

// both are two areas.
func (s *scratch) both(n uint64) (send, recv []byte, err error) {
	if send, err = s.first.bytes(n); err != nil {
		return nil, nil, err
	}
	recv, err = s.other.bytes(n)
	return send, recv, err
}

// bytes makes the area large enough.
func (a *area) bytes(n uint64) ([]byte, error) {
	if n > a.size {
		a.free()
		size := osmem.RoundUp(n)
		start, err := osmem.Alloc(size)
		if err != nil {
			return nil, err
		}
		a.start, a.size = start, size
	}
	return osmem.Bytes(a.start, n), nil
}

func (a *area) free() {
	if a.size > 0 {
		_ = osmem.Free(a.start, a.size) // it was allocated here, and can be freed
	}
	*a = area{}
}

// free gives all back when MPI has ended.
func (s *scratch) free() {
	s.first.free()
	s.other.free()
	_ = osmem.Free(s.request, osmem.PageSize())
}

// cString is the text before the first zero.
func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
