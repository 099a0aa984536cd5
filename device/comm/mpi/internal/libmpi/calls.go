package libmpi

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// function is one of the library's.
type function int

const (
	initThread function = iota
	finalize
	commDup
	commRank
	commSize
	commSetErrhandler
	errorString
	ibcast
	iallreduce
	ireduceScatterBlock
	iallgather
	ialltoall
	ibarrier
	isend
	irecv
	test
	cancel
	functionCount
)

var functionNames = [functionCount]string{
	initThread: "MPI_Init_thread", finalize: "MPI_Finalize", commDup: "MPI_Comm_dup", commRank: "MPI_Comm_rank",
	commSize: "MPI_Comm_size", commSetErrhandler: "MPI_Comm_set_errhandler",
	errorString: "MPI_Error_string", ibcast: "MPI_Ibcast", iallreduce: "MPI_Iallreduce", ireduceScatterBlock: "MPI_Ireduce_scatter_block",
	iallgather: "MPI_Iallgather", ialltoall: "MPI_Ialltoall", ibarrier: "MPI_Ibarrier", isend: "MPI_Isend", irecv: "MPI_Irecv",
	test: "MPI_Test", cancel: "MPI_Cancel",
}

// Error is a call that the library refused.
type Error struct {
	Call string // "MPI_Iallreduce"
	Code int32
	Text string // the library's
}

// Error returns one line.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (code %d)", e.Call, e.Text, e.Code) }

// Comm is a communicator.
type Comm uintptr

// Request is the address of a request: memory of 16 bytes that the caller keeps until the request is done.
type Request uintptr

// do calls a function that returns an error code.
func (l *Library) do(f function, args ...uintptr) error {
	if code := int32(call(l.functions[f], args...)); code != 0 {
		return l.failure(f, code)
	}
	return nil
}

// failure asks the library what a code means.
func (l *Library) failure(f function, code int32) error {
	e := &Error{Call: functionNames[f], Code: code, Text: "failed"}
	length := l.out + uintptr(l.ErrorString)
	if int32(call(l.functions[errorString], uintptr(code), l.out, length)) == 0 {
		n := min(uint64(word(length)), uint64(l.ErrorString))
		e.Text = oneLine(string(osmem.Bytes(l.out, n)))
	}
	return e
}

// oneLine is the first line of MPICH's stack of reasons and the last, which is the cause.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == 0 })
	switch len(lines) {
	case 0:
		return "no text"
	case 1:
		return lines[0]
	}
	return lines[0] + " ... " + lines[len(lines)-1]
}

// word reads an int that the library wrote.
func word(at uintptr) uint32 { return binary.LittleEndian.Uint32(osmem.Bytes(at, 4)) }

// handle reads a handle that the library wrote, of which MPICH writes only half a word.
func (l *Library) handle(at uintptr) uintptr {
	if l.HandleBytes == 4 {
		return uintptr(word(at))
	}
	return uintptr(binary.LittleEndian.Uint64(osmem.Bytes(at, 8)))
}

// Init starts MPI on this thread, which alone will call it. Errors are returned from now on.
func (l *Library) Init() error {
	if err := l.do(initThread, 0, 0, uintptr(l.Funneled), l.out); err != nil {
		return err
	}
	got := int32(word(l.out))
	l.keepSignalStack()
	// Of the world itself, too: Open MPI reports there what goes wrong in parts of a collective, and by itself that ends the program.
	if err := l.do(commSetErrhandler, l.World, l.ErrorsReturn); err != nil {
		return err
	}
	if got < l.Funneled {
		return fmt.Errorf("%v was built for programs of one thread (it provides level %d of %d)", l.ABI, got, l.Funneled)
	}
	return nil
}

// Code is an address in the library's code.
func (l *Library) Code() uintptr { return l.functions[initThread] }

// Finalize ends MPI. All ranks must call it.
func (l *Library) Finalize() error { return l.do(finalize) }

// Dup makes a communicator with the ranks and the errors of another.
func (l *Library) Dup(c Comm) (Comm, error) {
	if err := l.do(commDup, uintptr(c), l.out); err != nil {
		return 0, err
	}
	return Comm(l.handle(l.out)), nil
}

// Place is the rank in a communicator, and how many there are.
func (l *Library) Place(c Comm) (rank, size int, err error) {
	if err := l.do(commRank, uintptr(c), l.out); err != nil {
		return 0, 0, err
	}
	rank = int(word(l.out))
	err = l.do(commSize, uintptr(c), l.out)
	return rank, int(word(l.out)), err
}

// Test reports whether a request is done, and lets the library work on all requests.
func (l *Library) Test(r Request) (bool, error) {
	if err := l.do(test, uintptr(r), l.out, l.StatusIgnore); err != nil {
		return false, err
	}
	return word(l.out) != 0, nil
}

// Cancel ends a request to receive. Test says when.
func (l *Library) Cancel(r Request) error { return l.do(cancel, uintptr(r)) }

// The calls below begin something that is done when Test of the request says so. Counts are less than 2^31.

// Bcast begins to send n bytes of root to all.
func (l *Library) Bcast(buf uintptr, n, root int, c Comm, r Request) error {
	return l.do(ibcast, buf, uintptr(n), l.Byte, uintptr(root), uintptr(c), uintptr(r))
}

// Allreduce begins to combine n elements. src may be InPlace.
func (l *Library) Allreduce(src, dst uintptr, n int, datatype, op uintptr, c Comm, r Request) error {
	return l.do(iallreduce, src, dst, uintptr(n), datatype, op, uintptr(c), uintptr(r))
}

// ReduceScatterBlock begins to combine, and leaves n elements at dst.
func (l *Library) ReduceScatterBlock(src, dst uintptr, n int, datatype, op uintptr, c Comm, r Request) error {
	return l.do(ireduceScatterBlock, src, dst, uintptr(n), datatype, op, uintptr(c), uintptr(r))
}

// Allgather begins to gather n bytes of each rank. src may be InPlace.
func (l *Library) Allgather(src, dst uintptr, n int, c Comm, r Request) error {
	return l.do(iallgather, src, uintptr(n), l.Byte, dst, uintptr(n), l.Byte, uintptr(c), uintptr(r))
}

// Alltoall begins to exchange n bytes with each rank.
func (l *Library) Alltoall(src, dst uintptr, n int, c Comm, r Request) error {
	return l.do(ialltoall, src, uintptr(n), l.Byte, dst, uintptr(n), l.Byte, uintptr(c), uintptr(r))
}

// Barrier begins to wait for all ranks.
func (l *Library) Barrier(c Comm, r Request) error { return l.do(ibarrier, uintptr(c), uintptr(r)) }

// Send begins to send n bytes to one rank.
func (l *Library) Send(buf uintptr, n, to int, c Comm, r Request) error {
	return l.do(isend, buf, uintptr(n), l.Byte, uintptr(to), 0, uintptr(c), uintptr(r))
}

// Receive begins to receive n bytes from any rank.
func (l *Library) Receive(buf uintptr, n int, c Comm, r Request) error {
	return l.do(irecv, buf, uintptr(n), l.Byte, uintptr(uint32(l.AnySource)), uintptr(uint32(l.AnyTag)), uintptr(c), uintptr(r))
}
