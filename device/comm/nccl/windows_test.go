package nccl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/nccl/internal/libnccl"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/stretchr/testify/require"
)

// points are the moments of a collective's call at which a test does something: before and after each call of the driver and of NCCL.
type points struct {
	mu   sync.Mutex
	at   int // the one at which do is called, from 1; 0 is none
	seen int
	do   func()
}

func (p *points) pass() {
	p.mu.Lock()
	p.seen++
	do := p.do
	if p.seen != p.at {
		do = nil
	}
	p.mu.Unlock()
	if do != nil {
		do()
	}
}

// arm lets do be called at a point from now on.
func (p *points) arm(at int, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.seen, p.do = at, 0, do
}

// watchedStream is a stream whose calls are points.
type watchedStream struct {
	*cuda.Stream
	points *points
}

func (s *watchedStream) Record(e device.Event) error {
	s.points.pass()
	defer s.points.pass()
	return s.Stream.Record(e)
}

func (s *watchedStream) Handle() uintptr { s.points.pass(); return s.Stream.Handle() }
func (s *watchedStream) Capturing() bool { s.points.pass(); return s.Stream.Capturing() }
func (s *watchedStream) Note(name string) {
	s.points.pass()
	s.Stream.Note(name)
}

// watchedDevice is a device whose calls of ncclAllReduce are points, and the making of events.
type watchedDevice struct {
	*cuda.Device
	all    atomic.Uintptr // ncclAllReduce
	points *points
}

func (d *watchedDevice) NewEvent() (device.Event, error) {
	d.points.pass()
	return d.Device.NewEvent()
}

func (d *watchedDevice) CallForeign(fn uintptr, args ...uintptr) (uint32, error) {
	if fn == d.all.Load() {
		d.points.pass()
		defer d.points.pass()
	}
	return d.Device.CallForeign(fn, args...)
}

// endings are the ways in which a group ends while rank 0 makes a call.
var endings = map[string]struct {
	check bool
	other func(c comm.Comm, d *cuda.Device) error // what rank 1 does instead of the sum
	own   func(c comm.Comm)
}{
	"rank 0 aborts":           {own: func(c comm.Comm) { c.Abort(nil) }},
	"rank 1 aborts":           {other: func(c comm.Comm, _ *cuda.Device) error { c.Abort(nil); return nil }},
	"rank 1 closes":           {other: func(c comm.Comm, _ *cuda.Device) error { _ = c.Close(); return nil }},
	"rank 1 closes, compared": {check: true, other: func(c comm.Comm, _ *cuda.Device) error { _ = c.Close(); return nil }},
	"rank 1 has another count": {check: true, other: func(c comm.Comm, d *cuda.Device) error {
		b, err := buffer(d, 1)
		_ = errors.Join(c.AllReduce(d.DefaultStream(), b, b, comm.Sum), d.DefaultStream().Synchronize(context.Background()))
		return errors.Join(err, d.Free(b.Ptr))
	}},
	"rank 1 sends instead": {check: true, other: func(c comm.Comm, d *cuda.Device) error {
		b, err := buffer(d, 2)
		_ = errors.Join(c.Broadcast(d.DefaultStream(), b, 0), d.DefaultStream().Synchronize(context.Background()))
		return errors.Join(err, d.Free(b.Ptr))
	}},
}

// However the ends of a group and a collective's call fall together, nobody is given what was not summed, without an error.
func TestEnd_IsToldWheneverItComes(t *testing.T) {
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			rig := cudatest.New(t, 2, func(l *fakecuda.Library) { l.Set("free_sync", "0") })
			rig.Expect("NCCL hangs")
			const most = 12
			for run := range fulltests.Or(300, 2*most) {
				for _, hurry := range []bool{false, true}[run%2 : run%2+1] {
					if silent := endAt(t, rig, run/2%most, hurry, ending.check, ending.other, ending.own); silent != "" {
						t.Fatalf("run %d, point %d, hurry %v: %s", run, run/2%most, hurry, silent)
					}
				}
			}
		})
	}
}

// endAt sums once, ends the group at a point of rank 0's second sum, and returns what rank 0 was given in silence. The call goes on when the group has ended; with hurry at once, so that the end may come at
// any later point.
func endAt(t *testing.T, rig *cudatest.Rig, at int, hurry, check bool, other func(comm.Comm, *cuda.Device) error, own func(comm.Comm)) (silent string) {
	t.Helper()
	meetAt := filepath.Join(t.TempDir(), "meet")
	reached, ready := make(chan bool), make(chan bool)
	errs := together(2, func(number int) error {
		p := &points{}
		d := &watchedDevice{Device: rig.Devices[number], points: p}
		c, err := Open(d, ByFile(number, 2, meetAt), Options{TimeLimit: short + short, Check: check, Library: rig.Path()})
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if err := sums(c, d.Device, 1); err != nil {
			return err
		}
		if number == 1 {
			close(ready)
			if <-reached; other != nil {
				return other(c, d.Device)
			}
			<-c.(*rank).over
			return nil
		}
		<-ready // its first sum is done, and not cut off
		d.all.Store(c.(*rank).lib.Address(libnccl.AllReduce))
		once := sync.OnceFunc(func() {
			close(reached)
			switch {
			case own != nil && hurry:
				go own(c)
			case own != nil:
				own(c)
			case !hurry && !check:
				<-c.(*rank).over
			}
		})
		if check { // calls are compared before anything is enqueued: what rank 1 does comes while this one waits for it
			once()
		}
		p.arm(at, once)
		silent, err = sumOnce(c, d, p, once)
		return err
	})
	for number, err := range errs {
		require.NoError(t, err, "rank %d", number)
	}
	return silent
}

// sumOnce is one sum of rank 0's on a stream of its own, and what it leaves if nobody says a word.
func sumOnce(c comm.Comm, d *watchedDevice, p *points, once func()) (silent string, err error) {
	own, err := d.NewStream()
	if err != nil {
		return "", err
	}
	s := &watchedStream{own.(*cuda.Stream), p}
	b, err := buffer(d.Device, 2)
	if err != nil {
		return "", err
	}
	one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))
	if err := s.CopyToDevice(b.Ptr, append(one, one...)); err != nil {
		return "", err
	}
	call := c.AllReduce(s, b, b, comm.Sum)
	once() // if the call has fewer points
	wait := s.Synchronize(context.Background())
	got := make([]byte, 8)
	read := s.CopyToHost(got, b.Ptr)
	if call == nil && wait == nil && read == nil && math.Float32frombits(binary.LittleEndian.Uint32(got)) != 2 {
		silent = fmt.Sprintf("the sum is %v", math.Float32frombits(binary.LittleEndian.Uint32(got)))
	}
	_ = s.Close()
	return silent, d.Free(b.Ptr)
}
