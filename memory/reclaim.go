package memory

import (
	"errors"
	"slices"
)

// This file gives cached memory back to the driver: everything (EmptyCache), what is old (garbage collection), or just
// enough of what may not be split.

// EmptyCache gives all memory that no block uses back to the driver, after waiting for the events of freed blocks. It
// goes on after an error, and returns all of them joined.
func (a *Caching) EmptyCache() error {
	a.drainLater()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.releaseAll()
}

// releaseAll is EmptyCache under a.mu. The default pools come first, then the private pools that nobody uses any more.
func (a *Caching) releaseAll() error {
	errs := []error{a.syncEvents(), a.releasePool(nil)}
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
			errs = append(errs, a.releaseSegment(b))
		}
		for _, b := range a.freeBlocks(p, k, (*block).expandable) {
			errs = append(errs, a.trim(b))
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
	now := a.searches[largePool].Load()
	blocks := a.freeBlocks(nil, largePool, (*block).whole)
	var totalAge uint64
	for _, b := range blocks {
		totalAge += now - b.gcBase
	}
	for freed := true; freed && reclaimed < target && len(blocks) > 0; {
		freed = false
		average := float64(totalAge) / float64(len(blocks))
		kept := blocks[:0]
		for _, b := range blocks {
			age := now - b.gcBase
			if float64(age) < average || b.expandable() { // expandable ones count, but are never freed here
				kept = append(kept, b)
				continue
			}
			size := b.size
			if err := a.releaseSegment(b); err != nil {
				return err
			}
			freed = true
			reclaimed += size
			totalAge -= age
			// PyTorch takes the average once per pass, but counts down as it goes.
		}
		blocks = kept
	}
	return nil
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
	var sum uint64
	b := x.atLeast(key)
	if b != nil && b.plainWhole() {
		victims, sum = append(victims, b), b.size
	} else {
		if b == nil {
			b = x.last()
		} else {
			b = x.previous(b)
		}
		for ; b != nil && b.size >= r.policy.maxSplit && sum < key; b = x.previous(b) {
			if b.plainWhole() {
				victims, sum = append(victims, b), sum+b.size
			}
		}
	}
	r.shard.mu.Unlock()
	for _, b := range victims {
		if err := a.releaseSegment(b); err != nil {
			return false, err
		}
	}
	return sum >= key, nil
}
