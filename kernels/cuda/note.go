package cuda

import (
	"encoding/binary"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// noteBytes is the size of the note that kernels leave of an index out of range; complain in src/base.h writes it.
const noteBytes = 5 * 8

// States of a note: its first word.
const (
	noteFree    = 0
	noteWritten = 2
)

// checkNote returns the error in a note, if there is one, and frees the note. The device calls it after each wait.
func checkNote(memory []byte) error {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(memory[8*i:]) }
	if word(0) != noteWritten { // free, or a kernel of work that is not waited for is about to write: then it is read the next time
		return nil
	}
	id, index, place, size := op.ID(word(1)), int64(word(2)), word(3), word(4)
	// Kernels take a note with a compare-and-swap of their own device: what comes between the reads above and this is dropped, not mixed up.
	binary.LittleEndian.PutUint64(memory, noteFree)
	return op.Errorf(id, op.ErrIndex, "%d at %d %s", index, place, op.Outside(int64(size), "there are no places"))
}

// note appends where a kernel of the call leaves its note.
func (t *task) note(c *op.Call) error {
	l, err := libraryOf(c.Stream.Device())
	if err != nil {
		return err
	}
	p, err := l.notes()
	if err != nil {
		return err
	}
	t.params.Words(uint64(p), uint64(c.Op))
	return nil
}

// notes is the address of the device's note.
func (l *library) notes() (device.Ptr, error) {
	if p := l.note.Load(); p != 0 {
		return device.Ptr(p), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.note.Load(); p != 0 { // another goroutine was faster: two notes would be one too many to ask
		return device.Ptr(p), nil
	}
	r, ok := l.device.(device.Reporter)
	if !ok {
		return 0, &device.Error{Device: l.device.ID(), Call: "Report", Err: device.ErrUnavailable, Detail: "kernels of the device cannot report errors"}
	}
	// Pinned host memory: the host looks at it after each wait, and a copy would be a wait of its own.
	p, err := r.Report(noteBytes, checkNote)
	if err != nil {
		return 0, err
	}
	l.note.Store(uint64(p))
	return p, nil
}
