package mpi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/mpi/internal/libmpi"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// The ranks talk beside the collectives, on a communicator of their own, by notices of one size: questions where the other is, answers, and
// what ended the group.
const (
	question = iota + 1
	answer
	ending
)

// notice is one message.
type notice struct {
	kind   uint8
	from   int
	number uint64 // answer: of the collective that the rank is in, or comes to next
	busy   bool   // answer: it is in it
	peer   int    // ending: as in comm.Fault
	other  int
	reason uint8  // ending: index in reasons
	text   string // answer: the collective that it is in, or was in last. ending: Fault.Detail
}

// reasons are the sentinels that can be sent. Of an abort's cause, only the text can.
var reasons = []error{comm.ErrAborted, comm.ErrTimeout, comm.ErrMismatch, comm.ErrPeer, comm.ErrLibrary}

// A slot is a request and a notice in memory outside Go's heap, where MPI may work on it as long as it likes.
const (
	slotBytes   = 512
	slabBytes   = 32 * slotBytes
	noticeAt    = 16 // behind the request
	noticeBytes = slotBytes - noticeAt
	headBytes   = 40
	textBytes   = noticeBytes - headBytes
)

type slot uintptr

func (s slot) request() libmpi.Request { return libmpi.Request(s) }
func (s slot) notice() uintptr         { return uintptr(s) + noticeAt }

// write puts a notice into the slot. Longer texts are cut.
func (s slot) write(n notice) {
	b := osmem.Bytes(s.notice(), noticeBytes)
	clear(b)
	b[0], b[1] = n.kind, n.reason
	if n.busy {
		b[2] = 1
	}
	text := n.text[:min(len(n.text), textBytes)]
	for i, v := range []uint64{uint64(n.from), n.number, uint64(n.peer), uint64(n.other)} {
		binary.LittleEndian.PutUint64(b[8+8*i:], v)
	}
	copy(b[headBytes:], text)
}

// read takes a notice out of the slot.
func (s slot) read() notice {
	b := osmem.Bytes(s.notice(), noticeBytes)
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8+8*i:]) }
	text, _, _ := bytes.Cut(b[headBytes:], []byte{0})
	return notice{kind: b[0], reason: b[1], busy: b[2] == 1, from: int(word(0)), number: word(1), peer: int(word(2)), other: int(word(3)),
		text: string(text)}
}

// sending is a notice on its way.
type sending struct {
	slot
	to int
}

// talk is the channel.
type talk struct {
	lib        *libmpi.Library
	comm       libmpi.Comm
	rank, size int
	in         slot // always receiving
	out        []sending
	free       []slot
	slabs      []uintptr // that the slots are in
	left       []bool    // by rank: has sent an ending
}

// open begins to receive.
func (t *talk) open(lib *libmpi.Library, c libmpi.Comm, rank, size int) error {
	*t = talk{lib: lib, comm: c, rank: rank, size: size, left: make([]bool, size)}
	in, err := t.slot()
	if err != nil {
		return err
	}
	t.in = in
	return t.receive()
}

// slot returns one that is free.
func (t *talk) slot() (slot, error) {
	if len(t.free) == 0 {
		p, err := osmem.Alloc(slabBytes)
		if err != nil {
			return 0, err
		}
		t.slabs = append(t.slabs, p)
		for i := range uintptr(slabBytes / slotBytes) {
			t.free = append(t.free, slot(p+i*slotBytes))
		}
	}
	s := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	return s, nil
}

func (t *talk) receive() error {
	return t.lib.Receive(t.in.notice(), noticeBytes, t.comm, t.in.request())
}

// send begins to send a notice. What cannot be sent is a rank's that is gone, of which its silence tells.
func (t *talk) send(to int, n notice) {
	s, err := t.slot()
	if err != nil {
		return
	}
	n.from = t.rank
	s.write(n)
	if t.lib.Send(s.notice(), noticeBytes, to, t.comm, s.request()) == nil {
		t.out = append(t.out, sending{s, to})
	}
}

// sendAll is send to all others.
func (t *talk) sendAll(n notice) {
	for to := range t.size {
		if to != t.rank {
			t.send(to, n)
		}
	}
}

// next returns a notice that has come.
func (t *talk) next() (n notice, ok bool, err error) {
	t.sweep()
	done, err := t.lib.Test(t.in.request())
	if err != nil || !done {
		return n, false, err
	}
	n = t.in.read()
	if n.from < 0 || n.from >= t.size {
		n.from = 0 // no rank of this program's sent that
	}
	if n.kind == ending {
		t.left[n.from] = true
	}
	return n, true, t.receive()
}

// sweep takes back the slots of what was sent.
func (t *talk) sweep() {
	kept := t.out[:0]
	for _, s := range t.out {
		if done, err := t.lib.Test(s.request()); err == nil && !done {
			kept = append(kept, s)
			continue
		}
		t.free = append(t.free, s.slot)
	}
	t.out = kept
}

// grace is how long a rank waits for answers, or for others to notice the end of the group.
const grace = time.Second

// farewell tells all what ended the group, and waits until they have said the same: so all ranks come to their ends together. Those that
// cannot are waited for no longer than grace.
func (t *talk) farewell(f *comm.Fault) {
	n := notice{kind: ending, peer: f.Peer, other: f.Other, text: f.Detail}
	for i, reason := range reasons {
		if errors.Is(f.Err, reason) {
			n.reason = uint8(i)
			break
		}
	}
	if n.reason == 0 && f.Err != comm.ErrAborted { // the cause's text goes along, and the rest of the error is lost
		n.text = strings.TrimPrefix(f.Err.Error(), comm.ErrAborted.Error()+": ")
	}
	t.sendAll(n)
	t.left[t.rank] = true
	for began, tries := time.Now(), 0; time.Since(began) < grace; tries++ {
		if _, _, err := t.next(); err != nil {
			return
		}
		if t.allLeft(f) {
			return
		}
		pause(tries)
	}
}

// allLeft reports whether all that can have been told that the group has ended, and have said so.
func (t *talk) allLeft(f *comm.Fault) bool {
	gone := -1
	if errors.Is(f.Err, comm.ErrPeer) {
		gone = f.Peer
	}
	for rank, left := range t.left {
		if !left && rank != gone {
			return false
		}
	}
	return !slices.ContainsFunc(t.out, func(s sending) bool { return s.to != gone })
}

// fault is the one that an ending tells of.
func (n notice) fault() *comm.Fault {
	f := &comm.Fault{Peer: n.peer, Other: n.other, Detail: n.text, Err: comm.ErrAborted}
	if int(n.reason) < len(reasons) {
		f.Err = reasons[n.reason]
	}
	return f
}

// release gives the memory back, when MPI has ended.
func (t *talk) release() error {
	for _, p := range t.slabs {
		if err := osmem.Free(p, slabBytes); err != nil {
			return err
		}
	}
	t.slabs, t.free = nil, nil
	return nil
}

// close stops receiving, when all ranks have come to Close.
func (t *talk) close() error {
	if err := t.lib.Cancel(t.in.request()); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		if done, err := t.lib.Test(t.in.request()); err != nil || done {
			return err
		}
		pause(tries)
	}
}
