package memory

// A pending block divides the free memory around it. What its stream is given meanwhile goes into the parts, and when the block is free at last it is a
// hole between blocks in use, of which only whole pages can be moved. Gradients that another stream reduces, and that are freed when the next step begins,
// cost a program 7 % of its memory that way. So with compaction pending blocks do not stay until the processor sees that the work of the other
// streams is done. After a while their own stream is made to wait for it, on the device, and they are cached:
//
//	stream 0   free b | use what it is given, until that is a quarter of what it held | wait for e | use b
//	stream 1   work on b | e
//
// The wait takes time only if that work takes longer than all that the stream was given memory for since: the other stream had as long to come to the
// event. A stream whose blocks are used elsewhere one after the other, as one that loads batches, always has one more than the one that it waits for.
// And it is not done for a little: what compaction lets be wasted is wasted anyway.

// overdueWaste is how many times what compaction lets be wasted the pending blocks must be for their stream to wait.
const overdueWaste = 2

// setDue says when the stream of b, which is pending now, is to wait for those that used it. Caller holds the shard.
func (sh *shard) setDue(b *block) {
	b.due = sh.dueNext()
	if sh.due == 0 || b.due < sh.due {
		sh.due = b.due
	}
}

// dueNext is when the stream will have been given a quarter of the bytes that it holds, and at least one block. Caller holds the shard.
func (sh *shard) dueNext() uint64 {
	held := uint64(0)
	for k := range poolKinds {
		held += uint64(sh.tally.pool[k].current[hotAllocatedBytes])
	}
	return sh.given + max(held/4, minBlock)
}

// isDue reports whether a pending block may be due. Caller holds the shard.
func (sh *shard) isDue() bool { return sh.due != 0 && sh.given >= sh.due }

// completeOverdue makes the stream of a shard wait for the events of the pending blocks that are due, and caches those. If the stream cannot be made to wait, as in
// a capture, they stay as they are, and it is tried again later: that is no error. No lock is held.
func (a *Caching) completeOverdue(p *policy, sh *shard) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	overdue, bytes, next := a.overdue(sh)
	if float64(bytes) <= float64(a.allocatedPeak())*overdueWaste*(p.compaction-1) {
		overdue = nil // they wait for more
	}
	_, moves := a.expands(&request{policy: p, shard: sh})
	ordered := len(overdue) == 0 || moves && a.mayOrder(sh) && a.waitBehind(sh, overdue)
	sh.mu.Lock()
	if ordered {
		sh.due = next
		for _, b := range overdue { // by queue: the layout must not be by chance
			b.events = 0
			sh.completePending(b)
		}
	} else {
		sh.due = sh.dueNext()
	}
	over := sh.tally.over
	sh.mu.Unlock()
	if over != 0 {
		a.settlePeaks(sh)
	}
}

// overdue lists the pending blocks of a shard that are due, with the sum of their bytes, and says when the next one will be: 0 if none is left. Blocks of plans are
// not among them: their places are for them alone. Caller holds a.mu, and events.mu, so that nobody else completes them.
func (a *Caching) overdue(sh *shard) (blocks []*block, bytes, next uint64) {
	otherwise := a.withoutEvent(sh)
	seen := map[*block]bool{} // a block is in the queue of each stream that used it
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for b := range a.events.queues.All() {
		if b.shard != sh || b.slot != nil || otherwise[b] || seen[b] {
			continue
		}
		seen[b] = true
		if b.due <= sh.given {
			blocks, bytes = append(blocks, b), bytes+b.size
		} else if next == 0 || b.due < next {
			next = b.due
		}
	}
	return blocks, bytes, next
}
