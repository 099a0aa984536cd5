package cuda

import (
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Graph is captured work.
type Graph struct {
	device *Device
	handle uintptr        // the driver's CUgraph
	left   []*graphMemory // allocated in the capture and not freed there: each launch makes it anew
	name   string         // for profiles
	closed atomic.Bool
}

// GraphExec is a graph that can be launched.
type GraphExec struct {
	device *Device
	handle uintptr        // the driver's CUgraphExec
	left   []*graphMemory // as of its Graph
	closed atomic.Bool
	mu     sync.Mutex // the driver does not want two launches of one graph at the same moment
}

// Nodes returns how many operations the graph has.
func (g *Graph) Nodes() (int, error) {
	b, err := g.begin("Graph.Nodes")
	if err != nil {
		return 0, err
	}
	defer b.Release()
	b.Add(driver.GraphGetNodes, g.handle, 0, b.Out(0)) // with a nil list the driver tells the number alone
	if f, r := b.Run(); r != driver.Success {
		return 0, g.device.failed(f, r, "")
	}
	return int(b.Value(0)), nil
}

func (g *Graph) begin(call string) (*driver.Batch, error) {
	b, err := g.device.begin(call)
	if err != nil {
		return nil, err
	}
	if g.closed.Load() {
		b.Release()
		return nil, g.device.fail(call, device.ErrClosed, "the graph is closed")
	}
	return b, nil
}

// Instantiate makes a GraphExec. What the graph allocates by itself (Device.AllocAsync in the capture) and does not free is freed
// when it is launched again, as PyTorch does; without that a second launch would be an error.
func (g *Graph) Instantiate() (device.GraphExec, error) {
	b, err := g.begin("Graph.Instantiate")
	if err != nil {
		return nil, err
	}
	defer b.Release()
	b.Add(driver.GraphInstantiateWithFlags, b.Out(0), g.handle, driver.GraphAutoFree)
	if f, r := b.Run(); r != driver.Success {
		return nil, g.device.failed(f, r, "")
	}
	x := &GraphExec{device: g.device, handle: uintptr(b.Value(0)), left: g.left}
	g.device.names.set(x.handle, g.name)
	g.device.keepCode(&x.closed, loaded{driver.GraphExecDestroy, x.handle, x.left})
	return x, nil
}

// Close ends the graph. What was made of it stays.
func (g *Graph) Close() error {
	return g.device.unload("Graph.Close", &g.closed, driver.GraphDestroy, g.handle)
}

// Launch enqueues the graph on a stream of its device. It makes no Go heap allocation.
func (x *GraphExec) Launch(s device.Stream) error {
	const call = "Graph.Launch"
	own, ok := s.(*Stream)
	if !ok || own == nil || own.device != x.device {
		return x.device.wrongDevice(call, "stream")
	}
	b, err := own.begin(call)
	if err != nil {
		return err
	}
	if x.closed.Load() {
		b.Release()
		return x.device.fail(call, device.ErrClosed, "the graph is closed")
	}
	// On the device, a launch waits for the one before, whatever stream that was on: the nodes have one set of parameters, and memory.
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := own.enqueue(b, call, driver.GraphLaunch, x.handle, own.handle); err != nil {
		return err
	}
	x.device.launched(x.left) // only now: a launch that failed has left nothing
	return nil
}

// Close ends the graph. Launches on a stream still run, and memory that they left stays its owner's.
func (x *GraphExec) Close() error {
	const call = "GraphExec.Close"
	if x.closed.Load() || x.device.closed.Load() {
		return nil
	}
	if err := x.device.unload(call, &x.closed, driver.GraphExecDestroy, x.handle); err != nil {
		return err
	}
	x.device.names.drop(x.handle) // the driver may give the handle out anew
	return x.device.freeLeft(call, x.left)
}
