package nccl

import (
	"errors"
	"runtime"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/nccl/internal/libnccl"
	"github.com/cistern-ml/cistern/device/dtype"
)

var types = map[dtype.DType]uintptr{
	dtype.Float32: libnccl.Float32, dtype.Float64: libnccl.Float64, dtype.Float16: libnccl.Float16, dtype.BFloat16: libnccl.BFloat16,
	dtype.Int64: libnccl.Int64, dtype.Int32: libnccl.Int32, dtype.Uint8: libnccl.Uint8, dtype.Bool: libnccl.Uint8,
}

var operations = map[comm.Op]uintptr{comm.Sum: libnccl.Sum, comm.Mean: libnccl.Avg, comm.Max: libnccl.Max, comm.Min: libnccl.Min}

// enqueue puts a collective on a stream of the GPU.
func (r *rank) enqueue(s device.Stream, c comm.Call) error {
	own, ok := s.(stream)
	if !ok {
		return r.refuse(c, device.ErrInvalidValue, "the stream is not one of the GPU's driver")
	}
	if own.Capturing() {
		return r.refuse(c, comm.ErrUnavailable, "the stream is being captured: the time limit could not be kept for what a graph replays")
	}
	r.issuing <- struct{}{}
	defer func() { <-r.issuing }()
	return r.put(own, c)
}

func (r *rank) refuse(c comm.Call, err error, detail string) error {
	return &comm.Error{Backend: backend, Operation: c.Operation, Rank: r.group.Rank, Peer: -1, Detail: detail, Err: err}
}

// put makes a call, between two events by which the watcher knows where it is. The caller is the one who issues.
func (r *rank) put(s stream, c comm.Call) error {
	if err := r.usable(c.Operation); err != nil {
		return err
	}
	if c.Src.Count == 0 && c.Operation != opBarrier { // on all ranks, and NCCL has nothing to do
		r.note(c)
		return nil
	}
	p, err := r.newPending()
	if err != nil {
		return r.refuse(c, err, "")
	}
	if err := s.Record(p.before); err != nil {
		return errors.Join(r.refuse(c, err, ""), p.close())
	}
	s.Note(c.Operation)
	p.call, p.stream, p.number = c, s, r.note(c)
	r.mu.Lock()
	r.pending = append(r.pending, p)
	r.mu.Unlock()
	if err = r.issue(s, c); err == nil {
		err = s.Record(p.after)
	}
	if err != nil { // the other ranks wait for it
		r.blame(p.number, c, err)
		return r.usable(c.Operation)
	}
	p.issued.Store(true)
	return nil
}

// note gives a call its number.
func (r *rank) note(c comm.Call) uint64 {
	r.mu.Lock()
	number := r.next
	r.history[number%remembered] = c
	r.next++
	r.mu.Unlock()
	if r.options.Check {
		r.talk.called(number, c.String())
	}
	return number
}

// issue makes NCCL's call.
func (r *rank) issue(s stream, c comm.Call) error {
	if c.Operation == opAllToAll {
		return r.exchange(s, c)
	}
	f, args := r.call(s, c)
	result, err := r.invoke(f, args...)
	return r.settled(c, f, result, err)
}

// settled waits for what is in progress, after which the next call may be made, and work on the stream behind this one.
func (r *rank) settled(c comm.Call, f libnccl.Func, result libnccl.Result, err error) error {
	if err == nil && result == libnccl.InProgress {
		result, err = r.poll(c.Operation)
	}
	if err == nil && result != libnccl.Success {
		return r.failed(c.Operation, f, result)
	}
	return err
}

// The operations of comm.Call, by name.
const (
	opBroadcast     = "Broadcast"
	opAllReduce     = "AllReduce"
	opReduceScatter = "ReduceScatter"
	opAllGather     = "AllGather"
	opAllToAll      = "AllToAll"
	opBarrier       = "Barrier"
	opFollow        = "Follow"
)

// call is the function for a collective, with its arguments. Counts are of what a rank gives, but of ReduceScatter of what it gets.
func (r *rank) call(s stream, c comm.Call) (libnccl.Func, []uintptr) {
	src, dst, count, kind := uintptr(c.Src.Ptr), uintptr(c.Dst.Ptr), uintptr(c.Src.Count), types[c.Src.Type]
	handle, on := r.communicator(), s.Handle()
	switch c.Operation {
	case opBroadcast:
		return libnccl.Broadcast, []uintptr{src, dst, count, kind, uintptr(uint32(c.Root)), handle, on}
	case opReduceScatter:
		return libnccl.ReduceScatter, []uintptr{src, dst, uintptr(c.Dst.Count), kind, operations[c.Op], handle, on}
	case opAllGather:
		return libnccl.AllGather, []uintptr{src, dst, count, kind, handle, on}
	case opBarrier:
		cell := r.meeting.cell
		return libnccl.AllReduce, []uintptr{uintptr(cell), uintptr(cell), 1, libnccl.Int64, libnccl.Sum, handle, on}
	}
	return libnccl.AllReduce, []uintptr{src, dst, count, kind, operations[c.Op], handle, on}
}

// exchange is AllToAll, a group of sends and receives. NCCL keeps a group by thread.
func (r *rank) exchange(s stream, c comm.Call) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	result, err := r.invoke(libnccl.GroupStart)
	if err != nil || result != libnccl.Success {
		return r.settled(c, libnccl.GroupStart, result, err)
	}
	n := c.Src.Count / r.group.Size
	bytes, kind, handle := uint64(n*c.Src.Type.Size()), types[c.Src.Type], r.communicator()
	var first error
	keep := func(f libnccl.Func, result libnccl.Result, err error) {
		if err == nil && result != libnccl.Success && result != libnccl.InProgress {
			err = r.failed(c.Operation, f, result)
		}
		if first == nil {
			first = err
		}
	}
	for peer := range r.group.Size {
		to, from := uintptr(c.Src.Ptr.Add(uint64(peer)*bytes)), uintptr(c.Dst.Ptr.Add(uint64(peer)*bytes))
		result, err := r.invoke(libnccl.Send, to, uintptr(n), kind, uintptr(uint32(peer)), handle, s.Handle())
		keep(libnccl.Send, result, err)
		result, err = r.invoke(libnccl.Recv, from, uintptr(n), kind, uintptr(uint32(peer)), handle, s.Handle())
		keep(libnccl.Recv, result, err)
	}
	result, err = r.invoke(libnccl.GroupEnd) // also after an error: it ends the thread's group
	if first != nil {
		return first
	}
	return r.settled(c, libnccl.GroupEnd, result, err)
}
