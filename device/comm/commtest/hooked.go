package commtest

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
)

// Hooked is a Comm on whose collectives a test looks, or lets them fail or wait.
type Hooked struct {
	comm.Comm
	// Before is called ahead of each collective on a stream. Its error is that of the call, which is not made then.
	Before func(s device.Stream, c comm.Call) error
}

// Broadcast is Comm.Broadcast.
func (h Hooked) Broadcast(s device.Stream, buf comm.Buffer, root int) error {
	if err := h.Before(s, comm.Call{Operation: "Broadcast", Dst: buf, Src: buf, Root: root}); err != nil {
		return err
	}
	return h.Comm.Broadcast(s, buf, root)
}

// AllReduce is Comm.AllReduce.
func (h Hooked) AllReduce(s device.Stream, dst, src comm.Buffer, op comm.Op) error {
	if err := h.Before(s, comm.Call{Operation: "AllReduce", Dst: dst, Src: src, Op: op}); err != nil {
		return err
	}
	return h.Comm.AllReduce(s, dst, src, op)
}

// ReduceScatter is Comm.ReduceScatter.
func (h Hooked) ReduceScatter(s device.Stream, dst, src comm.Buffer, op comm.Op) error {
	if err := h.Before(s, comm.Call{Operation: "ReduceScatter", Dst: dst, Src: src, Op: op}); err != nil {
		return err
	}
	return h.Comm.ReduceScatter(s, dst, src, op)
}

// AllGather is Comm.AllGather.
func (h Hooked) AllGather(s device.Stream, dst, src comm.Buffer) error {
	if err := h.Before(s, comm.Call{Operation: "AllGather", Dst: dst, Src: src}); err != nil {
		return err
	}
	return h.Comm.AllGather(s, dst, src)
}

// AllToAll is Comm.AllToAll.
func (h Hooked) AllToAll(s device.Stream, dst, src comm.Buffer) error {
	if err := h.Before(s, comm.Call{Operation: "AllToAll", Dst: dst, Src: src}); err != nil {
		return err
	}
	return h.Comm.AllToAll(s, dst, src)
}
