package pinned

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/pages"
)

// pageStep is the alignment of blocks in the reserve segment, and the page size by which memory is touched: 4 KiB.
const pageStep = 4 << 10

// reserve is the reserve segment: memory taken from the driver once and cut up from front to back. Pieces never go back
// to it; they become blocks that stay cached.
type reserve struct {
	mu      sync.Mutex
	settled bool   // the setting was read, and the segment taken if it asks for one
	segment []byte // nil if there is none
	origin  origin
	rest    []byte // not cut up yet
}

// obtain makes a new block, from the reserve segment or else by the driver. It belongs to the caller and is in no bucket.
// No lock is held.
func (p *Allocator) obtain(policy *policy, size uint64) (*block, error) {
	mem, err := p.cutReserve(policy, size)
	if err != nil {
		return nil, err
	}
	origin := fromSegment
	if mem == nil {
		if mem, origin, err = p.pin(policy, size); err != nil {
			return nil, err
		}
	}
	return &block{bucket: p.bucket(size), mem: mem, addr: addressOf(mem), size: size, origin: origin}, nil
}

// cutReserve cuts a block off the reserve segment, which the first call takes. It returns nil if there is none or too little
// is left. If the driver refuses the segment, the next call asks again.
func (p *Allocator) cutReserve(policy *policy, size uint64) ([]byte, error) {
	r := &p.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.closed.Load() { // Close has been here, or is about to be
		return nil, p.errClosed()
	}
	if !r.settled {
		if policy.reserve != 0 {
			mem, origin, err := p.pin(policy, policy.reserve)
			if err != nil {
				return nil, err
			}
			r.segment, r.origin, r.rest = mem, origin, mem
		}
		r.settled = true
	}
	if uint64(len(r.rest)) < size {
		return nil, nil
	}
	mem := r.rest[:size:size]
	step := (size + pageStep - 1) / pageStep * pageStep
	r.rest = r.rest[min(step, uint64(len(r.rest))):]
	return mem, nil
}

// pin takes pinned memory from the driver, or registers ordinary memory if the settings say so and driver and system can.
func (p *Allocator) pin(policy *policy, size uint64) (mem []byte, origin origin, err error) {
	start := time.Now()
	if policy.register && p.registrar != nil && pages.Supported {
		mem, err = p.register(size, policy.threads)
		origin = registered
	} else {
		mem, err = p.driver.AllocPinned(size)
	}
	if err != nil {
		return nil, 0, err
	}
	p.books.countPin(time.Since(start))
	return mem, origin, nil
}

// register takes ordinary memory, touches its pages, because several goroutines do that faster than the driver would, and
// registers it.
func (p *Allocator) register(size uint64, threads int) ([]byte, error) {
	if size > math.MaxInt {
		return nil, p.noPages(size, errors.ErrUnsupported)
	}
	mem, err := pages.Alloc(int(size))
	if err != nil {
		return nil, p.noPages(size, err)
	}
	touch(mem, threads)
	if err := p.registrar.RegisterPinned(mem); err != nil {
		return nil, errors.Join(err, pages.Free(mem))
	}
	return mem, nil
}

func (p *Allocator) noPages(size uint64, cause error) error {
	return &device.Error{Device: p.id, Call: "RegisterPinned", Err: device.ErrOutOfMemory,
		Detail: fmt.Sprintf("%d bytes wanted, refused by the operating system: %v", size, cause)}
}

// touch writes a byte to each page of fresh memory, so that there is physical memory behind it.
func touch(mem []byte, threads int) {
	pageCount := (len(mem) + pageStep - 1) / pageStep
	share := (pageCount + threads - 1) / threads * pageStep
	var wg sync.WaitGroup
	for from := 0; from < len(mem); from += share {
		part := mem[from:min(from+share, len(mem))]
		wg.Go(func() {
			for i := 0; i < len(part); i += pageStep {
				part[i] = 0
			}
		})
	}
	wg.Wait()
}

// unpin is the opposite of pin. If the driver refuses, the memory is as it was.
func (p *Allocator) unpin(mem []byte, origin origin) error {
	start := time.Now()
	if origin == registered {
		if err := p.registrar.UnregisterPinned(mem); err != nil {
			return err
		}
		// Of memory that is not pinned any more no block can be made, so an error here, which only a bug of ours can cause,
		// does not make the release fail.
		_ = pages.Free(mem)
	} else if err := p.driver.FreePinned(mem); err != nil {
		return err
	}
	p.books.countUnpin(time.Since(start))
	return nil
}

// admit puts a new block on the books and hands it out. No lock is held.
func (p *Allocator) admit(b *block, bytes uint64) (Block, error) {
	k := b.bucket
	k.mu.Lock()
	if p.closed.Load() { // Close has been, or is about to be, at this bucket
		k.mu.Unlock()
		err := p.errClosed()
		if b.origin != fromSegment {
			err = errors.Join(err, p.unpin(b.mem, b.origin))
		}
		return Block{}, err
	}
	defer k.mu.Unlock()
	k.enroll(b)
	p.books.countBlock(int64(b.size))
	return k.handOut(b, bytes, true), nil
}

// release gives a releasing block back to the driver. If the driver refuses, the block is cached. No lock is held.
func (p *Allocator) release(b *block) error {
	err := p.unpin(b.mem, b.origin)
	k := b.bucket
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		p.books.countFreeError()
		if k.log.On() {
			k.noteKept(b)
		}
		k.cache(b)
		return err
	}
	k.strike(b)
	p.books.countBlock(-int64(b.size))
	return nil
}

// releaseList releases the blocks of a list linked by next.
func (p *Allocator) releaseList(b *block) error {
	var errs []error
	for b != nil {
		next := b.next
		b.next = nil
		if err := p.release(b); err != nil {
			errs = append(errs, err)
		}
		b = next
	}
	return errors.Join(errs...)
}
