package memory

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/text"
	"github.com/pkg/errors"
)

// ErrAddress: the memory at the wanted address cannot be had.
var ErrAddress = errors.New("exact address not available")

// AddressError is a call of AllocAt that cannot be served.
type AddressError struct {
	Device device.ID
	Ptr    device.Ptr
	Size   uint64 // the rounded size of the request, in bytes
	Detail string
}

// Error names the device, the address, the size and what is wrong.
func (e *AddressError) Error() string {
	return fmt.Sprintf("memory: AllocAt on %s: %v: %d bytes at %#x: %s", e.Device, ErrAddress, e.Size, uintptr(e.Ptr), e.Detail)
}

// Is reports whether target is ErrAddress.
func (e *AddressError) Is(target error) bool { return target == ErrAddress }

// AllocAt is Alloc of memory at a given address: for putting back state that holds addresses, such as that of a captured
// graph. The memory must be cached for stream s, in the pool that serves the size. The address is a multiple of 512. It never
// asks the driver: what is not free at that place is an *AddressError.
func (a *Caching) AllocAt(bytes uint64, s device.Stream, at device.Ptr) (Block, error) {
	if a.absent() {
		return Block{}, argumentErr("AllocAt", text.NilAllocator)
	}
	if bytes == 0 {
		return Block{}, nil
	}
	if err := checkOpenStream("AllocAt", a.id, a.driver, s); err != nil {
		return Block{}, err
	}
	if bytes >= maxRequest {
		return Block{}, a.tooLarge(bytes)
	}
	a.spoil()
	p := a.policy.Load()
	size := p.blockSize(bytes)
	if at%minBlock != 0 {
		return Block{}, &AddressError{Device: a.id, Ptr: at, Size: size, Detail: "the address is not aligned to 512 bytes"}
	}
	a.doPendingWork(s)
	sh, err := a.shardOf(s)
	if err != nil {
		return Block{}, err
	}
	kind, m := poolFor(size), a.allocSite()
	sh.mu.Lock()
	b := sh.containing(kind, at, size)
	if b == nil {
		sh.mu.Unlock()
		return Block{}, &AddressError{Device: a.id, Ptr: at, Size: size,
			Detail: fmt.Sprintf("no free block of stream %d in the %s pool has it", sh.id(), kind)}
	}
	sh.log.Tag = journal.Exact
	sh.pools[kind].remove(b)
	before := uint64(at - b.ptr)
	prefix := sh.holdPrefix(p, b, at, m)
	if prefix != nil {
		b = prefix.next // what is left begins at the address
		sh.pools[kind].remove(b)
	}
	b = sh.handOut(p, b, size, bytes)
	b.stack = m.Stack
	if sh.log.On() {
		sh.noteAlloc(b, m)
	}
	if prefix != nil {
		sh.release(prefix)
		if sh.log.On() {
			sh.noteFree(prefix, m, true)
		}
		sh.complete(prefix)
	}
	sh.log.Tag = journal.NoTag
	h := Block{b: b, generation: b.generation, ptr: b.ptr, size: b.size}
	over := sh.tally.over
	sh.mu.Unlock()
	if over != 0 {
		a.settlePeaks(sh)
	}
	if before >= p.maxSplit {
		a.passOversize()
	}
	if h.size >= p.maxSplit {
		a.countOversize(1)
	}
	return h, nil
}

// containing returns the cached block that has size bytes at an address, or nil. It walks the whole pool: this is no hot path.
func (sh *shard) containing(k poolKind, at device.Ptr, size uint64) *block {
	for b := range sh.pools[k].all {
		if b.ptr <= at && at.Add(size) <= b.ptr.Add(b.size) {
			return b
		}
	}
	return nil
}

// holdPrefix hands out what lies before an address in b, which is in no index, as a block of its own, so that the rest begins
// there. It returns nil if b begins there. The split is one that the pool's rule may not make. As in PyTorch the prefix counts
// as an allocation, which the caller frees at once; but unlike there no peak counts the two together.
func (sh *shard) holdPrefix(p *policy, b *block, at device.Ptr, m journal.Site) *block {
	if b.ptr == at {
		return nil
	}
	always := *p
	always.expandable = true // splits whatever is left
	n := uint64(at - b.ptr)
	prefix := sh.handOut(&always, b, n, n)
	if sh.log.On() {
		sh.noteAlloc(prefix, m)
	}
	return prefix
}
