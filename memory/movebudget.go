package memory

// A budget for pages that move (setting expandable_segments_compaction_budget). A page that moves is four driver calls: it is unmapped and released, and another one created and
// mapped. A program whose requests never repeat moves pages for ever. With a budget it moves a part of the bytes that it asks for, at most, and where that is
// used up reserved memory passes the bound of compaction, as it would without the setting.

// moveBudget is what may move now. It is guarded by a.mu.
type moveBudget struct {
	asked  uint64 // bytes that all shards had been asked for when it was looked at
	credit uint64 // bytes that may move
}

// affordable is how many of the bytes that are above the bound may move: of those that may, whole pages. What a program has not used is left for later, but no more than it has had in use
// at once. Caller holds a.mu and no shard.
func (a *Caching) affordable(p *policy, bytes, page uint64) uint64 {
	if p.moveBudget == 0 {
		return bytes
	}
	asked := a.bytesAsked()
	more := uint64(p.moveBudget * float64(asked-min(asked, a.moves.asked))) // less if a shard is gone
	a.moves = moveBudget{asked, min(a.moves.credit+more, a.allocatedPeak())}
	return min(bytes, a.moves.credit/page*page)
}

// moved takes in how many bytes did.
func (b *moveBudget) moved(bytes uint64) { b.credit -= min(b.credit, bytes) }

// bytesAsked is what all shards have been asked for with compaction. Caller holds a.mu and no shard.
func (a *Caching) bytesAsked() (sum uint64) {
	for _, sh := range *a.shards.Load() {
		sh.mu.Lock()
		sum += sh.given
		sh.mu.Unlock()
	}
	return sum
}
