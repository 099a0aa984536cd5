package memory

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/pkg/errors"
)

// ErrCheckpoint: the layout of a pool cannot be noted, or not be put back.
var ErrCheckpoint = errors.New("checkpoint of a private pool")

// CheckpointError is a call of Checkpoint or Restore that cannot be served. Nothing has changed.
type CheckpointError struct {
	Op     string // the call
	Device device.ID
	Pool   PoolID
	Ptr    device.Ptr // of the block or segment in question; 0 if it is none
	Detail string
}

// Error names the call, the device, the pool, the address and what is wrong.
func (e *CheckpointError) Error() string {
	where := ""
	if e.Ptr != 0 {
		where = fmt.Sprintf(" at %#x", uintptr(e.Ptr))
	}
	return fmt.Sprintf("memory: %s of pool %v on %s: %s%s", e.Op, e.Pool, e.Device, e.Detail, where)
}

// Is reports whether target is ErrCheckpoint.
func (e *CheckpointError) Is(target error) bool { return target == ErrCheckpoint }

// PoolCheckpoint is the layout of a private pool at one moment: which blocks its segments were divided into, and which of
// them were allocated. It holds no memory, and can be restored any number of times.
//
// It is for chains of captured graphs that share a pool (PyTorch's CUDA graph trees). A replay writes the addresses of its
// capture without telling the allocator, so after replays the pool's books are those of the last capture, not those of the
// graph that ran last. To capture another continuation of that graph, restore the checkpoint that was taken after its
// capture: what lives then is allocated again, and the new capture gets none of it.
type PoolCheckpoint struct {
	pool     *Pool
	segments []segmentLayout
}

// Checkpoint notes the layout of the pool. It fails with a *CheckpointError if freed blocks still wait for other streams,
// because what they will be part of is not known, and with ErrPoolReleased if the pool has no use left.
func (p *Pool) Checkpoint() (*PoolCheckpoint, error) {
	if p.absent() {
		return nil, argumentErr("Checkpoint", nilPool)
	}
	a := p.a
	a.doPendingWork(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.uses == 0 {
		return nil, p.errReleased("Checkpoint of")
	}
	shards := a.lockShards()
	defer unlockShards(shards)
	c := &PoolCheckpoint{pool: p, segments: a.layout(p)}
	for _, seg := range c.segments {
		for _, b := range seg.blocks {
			if b.state == statePending {
				return nil, p.checkpointError("Checkpoint", b.ptr, "work on other streams still uses the freed block")
			}
		}
	}
	return c, nil
}

// Allocated lists the addresses of the pool's allocated blocks, by address: what must be the memory that lives, if graphs
// that share the pool are replayed.
func (p *Pool) Allocated() []device.Ptr {
	if p.absent() {
		return nil
	}
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	list := []device.Ptr{}
	for _, l := range a.layout(p) {
		for _, b := range l.blocks {
			if b.state == stateAllocated {
				list = append(list, b.ptr)
			}
		}
	}
	slices.Sort(list)
	return list
}

func (p *Pool) checkpointError(op string, ptr device.Ptr, detail string) error {
	return &CheckpointError{Op: op, Device: p.a.id, Pool: p.id, Ptr: ptr, Detail: detail}
}
