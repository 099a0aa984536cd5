package replay

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// machine is the device of a replay, with the books of its driver calls. A replay is one goroutine, and so are the calls.
type machine interface {
	// driver is what the allocator is made for.
	driver() memory.Driver
	// stream returns the stream to which a trace gives a number, and makes it at the first use.
	stream(number uint64) (device.Stream, error)
	// complete finishes everything enqueued on a stream so far.
	complete(number uint64) error
	// segment returns the number of the driver allocation in which p lies, and p's offset in it; -1 if it lies in none.
	segment(p device.Ptr) (number int, offset uint64)
	// calls counts the driver calls so far.
	calls() Driver
	// log is the hash of the driver calls so far.
	log() string
	// close gives everything back.
	close() error
}

// open makes the device of a replay.
func (o Options) open(b *books) (machine, error) {
	switch o.Device {
	case 0, device.Sim:
		return newSimulated(o.Capacity, b), nil
	case device.Host:
		dev := host.New(host.Capacity(o.Capacity))
		return newRecorder(dev, b, func(number uint64) (device.Stream, error) {
			if number == 0 {
				return dev.DefaultStream(), nil
			}
			return dev.NewStream()
		}), nil
	}
	return nil, fmt.Errorf("no replay on %s devices", o.Device)
}

// books is what both machines keep of each driver call: the log, and the bytes in pieces of 2 MiB.
type books struct {
	quiet        bool // keep nothing: for timing
	hash         hash.Hash64
	line         []byte
	granules     uint64 // bytes taken now, each piece rounded up to 2 MiB
	granulesPeak uint64
}

func newBooks() *books { return &books{hash: fnv.New64a()} }

// note enters a call.
func (b *books) note(c sim.Call) {
	if b.quiet {
		return
	}
	b.line = c.LogLine(b.line[:0])
	b.hash.Write(b.line)
	if c.Err != nil {
		return
	}
	switch c.Kind {
	case sim.CallMalloc, sim.CallPageCreate:
		b.granules += roundUp(c.Bytes, granule)
		b.granulesPeak = max(b.granulesPeak, b.granules)
	case sim.CallFree, sim.CallPageRelease:
		b.granules -= roundUp(c.Bytes, granule)
	}
}

func (b *books) log() string { return hex(b.hash) }

const granule = 2 * device.MiB

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }

// simulated is a simulated device whose streams move when the trace says so.
type simulated struct {
	*books
	dev *sim.Device
}

func newSimulated(capacity uint64, b *books) *simulated {
	return &simulated{books: b, dev: sim.New(capacity, sim.ManualStreams(), sim.OnCall(b.note))}
}

func (m *simulated) driver() memory.Driver { return m.dev }

func (m *simulated) stream(number uint64) (device.Stream, error) {
	return m.dev.Stream(device.StreamID(number)), nil
}

func (m *simulated) complete(number uint64) error {
	m.dev.Complete(device.StreamID(number))
	return nil
}

func (m *simulated) segment(p device.Ptr) (int, uint64) {
	number, offset, _ := m.dev.Segment(p)
	return number, offset
}

func (m *simulated) calls() Driver { return driverCounts(m.dev.Calls(), m.granulesPeak) }
func (m *simulated) close() error  { return m.dev.Close() }
