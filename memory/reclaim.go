package memory

import (
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// This file gives cached memory back to the driver: everything (EmptyCache), what is old (garbage collection), or just
// enough of what may not be split.

// EmptyCache gives all memory that no block uses back to the driver, after waiting for the events of freed blocks. It
// goes on after an error, and returns all of them joined.
func (a *Caching) EmptyCache() error {
	if a.absent() {
		return argumentErr("EmptyCache", text.NilAllocator)
	}
	if invariants.Enabled {
		defer a.audit("EmptyCache")
	}
	a.drainDeferredFrees()
	m := a.freeSite()
	var went releases
	err := a.emptyCache(m, &went)
	went.tell()
	return err
}

// emptyCache is EmptyCache under the driver lock.
func (a *Caching) emptyCache(m journal.Site, went *releases) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behalf = m
	a.noteDeed(deed{kind: deedEmptyCache})
	return went.note(a, ReleaseAsked, a.releaseAll)
}

// releaseAll is EmptyCache under a.mu.
func (a *Caching) releaseAll() error { return errors.Join(a.syncEvents(), a.releaseCached()) }

// releaseCached is releaseAll without the wait for events. The default pools come first, then the private pools that nobody uses any more.
func (a *Caching) releaseCached() error { return errors.Join(a.trimArenas(), a.releasePools()) }

// releaseBeside is releaseAll without what plans have.
func (a *Caching) releaseBeside() error { return errors.Join(a.syncEvents(), a.releasePools()) }

func (a *Caching) releasePools() error {
	errs := []error{a.releasePool(nil)}
	for _, p := range slices.Clone(a.pools) {
		if p.uses == 0 {
			errs = append(errs, a.releasePool(p))
			a.forgetPool(p)
		}
	}
	return errors.Join(errs...)
}

// releasePool gives the cached memory of a private pool, or the default ones, back to the driver. Caller holds a.mu.
func (a *Caching) releasePool(p *Pool) error {
	var errs []error
	for _, k := range [...]poolKind{largePool, smallPool} {
		for _, b := range a.freeBlocks(p, k, (*block).plainWhole) {
			_, err := a.releaseSegment(b)
			errs = append(errs, err)
		}
		for _, b := range a.freeBlocks(p, k, (*block).expandable) {
			_, err := a.trim(b, unlimited)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// collectGarbage releases cached blocks of the large pool, those unused for the most searches first, until the reserved
// bytes are below the threshold. Each pass frees the blocks of at least average age. Caller holds a.mu.
func (a *Caching) collectGarbage(p *policy) error {
	limit := uint64(p.gcThreshold * float64(a.limit.Load()))
	reserved := uint64(a.dev.ReservedBytes.All.Current)
	if reserved <= limit {
		return nil
	}
	target, reclaimed := reserved-limit, uint64(0)
	blocks, totalAge := a.agedBlocks()
	for freed := true; freed && reclaimed < target && len(blocks) > 0; {
		freed = false
		average := float64(totalAge) / float64(len(blocks))
		kept := blocks[:0]
		for _, b := range blocks {
			if float64(b.age) < average || b.expandable { // expandable ones count, but are never freed here
				kept = append(kept, b)
				continue
			}
			size, err := a.releaseSegment(b.block)
			if err != nil {
				return err
			}
			freed = true
			reclaimed += size
			totalAge -= b.age
			// PyTorch takes the average once per pass, but counts down as it goes.
		}
		blocks = kept
	}
	return nil
}

// agedBlock is a whole cached block and how many searches ago it was cached.
type agedBlock struct {
	block      *block
	age        uint64
	expandable bool
}

// agedBlocks lists the candidates of collectGarbage and the sum of their ages. Caller holds a.mu.
func (a *Caching) agedBlocks() (blocks []agedBlock, total uint64) {
	a.eachFree(nil, largePool, func(b *block) {
		if b.whole() {
			age := a.searches[largePool].Load() - b.gcBase
			blocks, total = append(blocks, agedBlock{b, age, b.expandable()}), total+age
		}
	})
	return blocks, total
}

// releaseOversize frees just enough cached oversize blocks of the request's stream and pool to make room: one that is large
// enough, or else the largest ones until their sum is. It reports whether it freed enough; what it freed stays freed.
// Only with max_split_size_mb. Caller holds a.mu.
func (a *Caching) releaseOversize(r *request) (bool, error) {
	if r.policy.maxSplit == unlimited {
		return false, nil
	}
	key := max(r.size, r.policy.maxSplit)
	var victims []*block
	r.shard.mu.Lock()
	x := &r.shard.pools[r.kind]
	b := x.atLeast(key)
	if b != nil && b.plainWhole() {
		victims = append(victims, b)
	} else {
		if b == nil {
			b = x.last()
		} else {
			b = x.previous(b)
		}
		for sum := uint64(0); b != nil && b.size >= r.policy.maxSplit && sum < key; b = x.previous(b) {
			if b.plainWhole() {
				victims, sum = append(victims, b), sum+b.size
			}
		}
	}
	r.shard.mu.Unlock()
	var released uint64
	for _, b := range victims {
		size, err := a.releaseSegment(b)
		if err != nil {
			return false, err
		}
		released += size
	}
	return released >= key, nil
}
