package nccl

import (
	"errors"
	"fmt"
	"runtime"
	"time"

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
	if own.Closed() {
		return r.refuse(c, device.ErrClosed, "the stream is closed")
	}
	r.issuing <- struct{}{}
	defer func() { <-r.issuing }()
	return r.put(own, c)
}

func (r *rank) refuse(c comm.Call, err error, detail string) error {
	return &comm.Error{Backend: backend, Operation: c.Operation, Rank: r.group.Rank, Peer: -1, Detail: detail, Err: err}
}

// put makes a call, between two events by which the watcher knows where it is. The caller is the one who issues. What fails from the number on ends the group: the
// other ranks wait for the call.
func (r *rank) put(s stream, c comm.Call) error {
	if err := r.usable(c.Operation); err != nil {
		return err
	}
	number := r.note(c)
	if err := r.agree(number, c); err != nil {
		return err
	}
	if c.Src.Count == 0 && c.Operation != opBarrier { // on all ranks, and NCCL has nothing to do
		return nil
	}
	p, err := r.prepare(s, c, number)
	if err == nil {
		err = r.issue(s, c)
	}
	if err == nil {
		err = s.Record(p.after)
	}
	if err != nil {
		r.blame(number, c, err)
		return r.usable(c.Operation)
	}
	p.issued.Store(true)
	// The group may have ended since, and its mark on the stream been taken by somebody else's wait: then the call says it. An end that comes later finds the collective, whose event
	// is complete only if it was done, and marks the stream before the abort.
	return r.usable(c.Operation)
}

// prepare puts a call among those that an end of the group cuts off, before NCCL is told of it. Under the lock, so that either the end finds it there or it finds the end.
func (r *rank) prepare(s stream, c comm.Call, number uint64) (*pending, error) {
	p, err := r.newPending()
	if err != nil {
		return nil, err
	}
	if err := s.Record(p.before); err != nil {
		return nil, errors.Join(err, p.close())
	}
	s.Note(c.Operation)
	p.call, p.stream, p.number = c, s, number
	r.mu.Lock()
	f := r.fault
	if f == nil {
		r.pending = append(r.pending, p)
	}
	r.mu.Unlock()
	if f != nil {
		return nil, errors.Join(f.On(backend, r.group.Rank, c.Operation), p.close())
	}
	return p, nil
}

// note gives a call its number.
func (r *rank) note(c comm.Call) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := r.next
	r.history[number%remembered] = c
	r.next++
	return number
}

// agree returns when a call may be made: none of the others has closed before it and, where calls are compared, all make the same.
func (r *rank) agree(number uint64, c comm.Call) error {
	if peer, closed := r.talk.closedBefore(number); closed {
		r.talk.conclude(deserted(peer, c))
		<-r.over
		return r.usable(c.Operation)
	}
	if !r.options.Check || r.group.Size == 1 {
		return nil
	}
	r.talk.called(number, c.String())
	timer := time.NewTimer(r.options.TimeLimit)
	defer timer.Stop()
	select {
	case <-r.talk.agreed:
		return nil
	case <-r.over:
	case <-timer.C:
		r.blame(number, c, comm.ErrTimeout)
	}
	return r.usable(c.Operation)
}

// deserted is the fault of a rank that has closed where others make a call.
func deserted(peer int, c comm.Call) *comm.Fault {
	return &comm.Fault{Peer: peer, Err: comm.ErrPeer, Detail: fmt.Sprintf("it was closed before %v", c)}
}

// closedAt hears that another rank has closed, and made no call from a number on. It returns the fault if this rank has made one.
func (r *rank) closedAt(peer int, number uint64) *comm.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch last := r.history[(r.next-1)%remembered]; {
	case r.next <= number || r.next == number+1 && last.Operation == opClose:
		return nil
	case r.next-number > remembered:
		return deserted(peer, last)
	}
	return deserted(peer, r.history[number%remembered])
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
	opClose         = "Close"
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
