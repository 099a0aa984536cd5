package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/cistern-ml/cistern/device"
)

// CallKind is a kind of driver call.
type CallKind uint8

// The driver calls. One call of a Device may make several: Map makes a page create and a page map for each page.
const (
	CallMalloc CallKind = iota
	CallFree
	CallMemInfo
	CallReserve
	CallUnreserve
	CallPageCreate
	CallPageMap
	CallPageUnmap
	CallPageRelease
	CallStreamCreate
	CallStreamClose
	CallStreamQuery
	CallStreamSync
	CallStreamWait
	CallDeviceSync
	CallEventCreate
	CallEventClose
	CallEventRecord
	CallEventQuery
	CallEventSync
	CallCopyToDevice
	CallCopyToHost
	CallCopy
	CallFill
	CallSubmit
	CallAllocPinned
	CallFreePinned

	NumCalls // how many kinds there are
)

// callNames are the names in errors: of the method, where a method makes one kind of call.
var callNames = [NumCalls]string{
	CallMalloc: "Malloc", CallFree: "Free", CallMemInfo: "MemInfo",
	CallReserve: "Reserve", CallUnreserve: "Unreserve",
	CallPageCreate: "Map(create)", CallPageMap: "Map", CallPageUnmap: "Unmap", CallPageRelease: "Unmap(release)",
	CallStreamCreate: "NewStream", CallStreamClose: "Stream.Close", CallStreamQuery: "Stream.Done",
	CallStreamSync: "Stream.Synchronize", CallStreamWait: "Wait", CallDeviceSync: "Synchronize",
	CallEventCreate: "NewEvent", CallEventClose: "Event.Close", CallEventRecord: "Record",
	CallEventQuery: "Event.Done", CallEventSync: "Event.Synchronize",
	CallCopyToDevice: "CopyToDevice", CallCopyToHost: "CopyToHost", CallCopy: "Copy", CallFill: "Fill", CallSubmit: "Submit",
	CallAllocPinned: "AllocPinned", CallFreePinned: "FreePinned",
}

// String returns the name of the method that makes the call.
func (k CallKind) String() string {
	if k < NumCalls {
		return callNames[k]
	}
	return fmt.Sprintf("CallKind(%d)", uint8(k))
}

// Call is one driver call as OnCall and Inject see it.
type Call struct {
	Kind    CallKind
	Stream  device.StreamID // of calls that concern a stream
	Segment int             // of calls that concern memory: the number of the allocation or reserved range; -1 if there is none
	Offset  uint64          // of the page in the reserved range
	Bytes   uint64          // as asked for; of Free and Unreserve, the size of what is given back
	Err     error           // nil if the call succeeded; always nil for Inject
}

// LogLine appends the call's line of the driver log to b: "M segment bytes" for an allocation, "X bytes" for one that failed
// for lack of memory, "F segment" for a free; "R segment bytes" and "r segment bytes" for a range reserved and given back;
// "P segment offset bytes" and "U segment offset bytes" for a page mapped and unmapped, "x bytes" for a page that the device
// had no memory for. Each line ends with a newline. Other calls are not in the log and append nothing.
func (c Call) LogLine(b []byte) []byte {
	if c.Err != nil {
		if !errors.Is(c.Err, device.ErrOutOfMemory) {
			return b
		}
		switch c.Kind {
		case CallMalloc:
			return fmt.Appendf(b, "X %d\n", c.Bytes)
		case CallPageCreate:
			return fmt.Appendf(b, "x %d\n", c.Bytes)
		}
		return b
	}
	switch c.Kind {
	case CallMalloc:
		return fmt.Appendf(b, "M %d %d\n", c.Segment, c.Bytes)
	case CallFree:
		return fmt.Appendf(b, "F %d\n", c.Segment)
	case CallReserve:
		return fmt.Appendf(b, "R %d %d\n", c.Segment, c.Bytes)
	case CallUnreserve:
		return fmt.Appendf(b, "r %d %d\n", c.Segment, c.Bytes)
	case CallPageMap:
		return fmt.Appendf(b, "P %d %d %d\n", c.Segment, c.Offset, c.Bytes)
	case CallPageUnmap:
		return fmt.Appendf(b, "U %d %d %d\n", c.Segment, c.Offset, c.Bytes)
	}
	return b
}

// Calls are the counts of driver calls since the device was made.
type Calls struct {
	Count              [NumCalls]uint64 // by kind, failed ones included
	Failed             [NumCalls]uint64 // by kind
	EventQueryNotReady uint64           // Event.Done that answered false
	BytesNow           uint64           // memory taken, allocations rounded up to 512 bytes
	BytesPeak          uint64
}

// Costs is the simulated duration of each kind of call, as in Costs{CallMalloc: 300 * time.Microsecond}. Failed calls cost
// as much as others.
type Costs [NumCalls]time.Duration

// Calls returns a copy of the counts.
func (d *Device) Calls() Calls {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.calls
}

// SetCosts changes what calls cost from now on. A new device's calls cost nothing.
func (d *Device) SetCosts(costs Costs) {
	if d = d.orAbsent(); d == absent {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.costs = costs
}

// Elapsed is the sum of the costs of all calls so far.
func (d *Device) Elapsed() time.Duration {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.elapsed
}

// begin starts a driver call, and reports whether it may go on: it sets c.Err if a fault is due. Every begin is followed by
// an end for the same call. The caller holds d.mu.
func (d *Device) begin(c *Call) bool {
	if err := d.fault(*c); err != nil {
		c.Err = d.fail(c.Kind, err, "injected")
	}
	return c.Err == nil
}

// end counts the call, shows it to the observer and returns its error. The caller holds d.mu.
func (d *Device) end(c *Call) error {
	d.mu.calls.Count[c.Kind]++
	if c.Err != nil {
		d.mu.calls.Failed[c.Kind]++
	}
	d.mu.elapsed += d.mu.costs[c.Kind]
	if d.observe != nil {
		d.observe(*c)
	}
	return c.Err
}
