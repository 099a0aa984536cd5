package nccl

import (
	"context"
	"errors"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
)

// meeting is what barriers need: NCCL has none, so that they are sums of one number, on a stream of their own.
type meeting struct {
	device gpu
	stream stream
	cell   device.Ptr
}

// cellBytes is the number with a line of the cache to itself.
const cellBytes = 256

func (m *meeting) open(d gpu) error {
	m.device = d
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	own, ok := s.(stream)
	if !ok {
		return errors.Join(errors.New("the stream is not one of the GPU's driver"), s.Close())
	}
	m.stream = own
	if m.cell, err = d.Malloc(cellBytes); err != nil {
		return err
	}
	return s.Fill(m.cell, 0, cellBytes)
}

func (m *meeting) close() error {
	var errs []error
	if m.stream != nil {
		var failed *comm.Error
		if err := m.stream.Close(); err != nil && !errors.As(err, &failed) { // a barrier's fault was told to who waited for it
			errs = append(errs, err)
		}
		m.stream = nil
	}
	if m.cell != 0 {
		errs = append(errs, m.device.Free(m.cell))
		m.cell = 0
	}
	return errors.Join(errs...)
}

// barrier is Comm.Barrier.
func (r *rank) barrier(ctx context.Context) error {
	c := comm.Call{Operation: opBarrier}
	r.issuing <- struct{}{}
	put := make(chan error, 1)
	go func() { // where calls are compared this waits for the others, and is not taken back when ctx ends
		put <- r.put(r.meeting.stream, c)
		<-r.issuing
	}()
	select {
	case err := <-put:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return r.refuse(c, ctx.Err(), "")
	}
	err := r.meeting.stream.Synchronize(ctx)
	switch {
	case err == nil:
		if r.ended() != nil {
			return r.usable(c.Operation)
		}
		return nil
	case ctx.Err() != nil:
		return r.refuse(c, ctx.Err(), "")
	}
	if r.ended() != nil {
		return r.usable(c.Operation)
	}
	return r.refuse(c, err, "")
}
