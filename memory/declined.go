package memory

// A request that a plan does not serve goes to the caching allocator, and may fail there: programs ask for more than there is to learn how large a workspace may be.
// What failed is no part of the step. It is not counted, what was expected when it came is expected still, and what plans have is not given up for it.

// answer is what a plan has said to a request that it does not serve, for the case that it fails.
type answer struct {
	epoch    uint32
	count    *int  // that it was counted in; nil for none
	next     int   // which slot was expected before it,
	after    int   // and after it
	skipped  int   // how many were left out before it
	entries  int   // how many requests the step had had
	first    bool  // it was the one at which placements were put in force
	outlives bool  // its block outlives the step
	until    int32 // its block is expected to be free when the step has had so many requests; 0 if nothing is known of that
}

// decline counts a request that is not served.
func (st *steps) decline(count *int) *slot {
	*count++
	st.answer.count, st.answer.after = count, st.next
	return nil
}

// withdraw undoes what a request that has failed did to its step. Caller holds no lock.
func (r *request) withdraw() {
	w := r.answer
	if w.count == nil {
		return
	}
	sh := r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	if st.epoch != w.epoch { // it is counted already, and another step has begun
		return
	}
	*w.count = max(*w.count-1, 0)                               // another request may have begun the step anew, which counts from there
	if len(st.now.entries) == w.entries && st.next == w.after { // or others have gone on from there
		st.next, st.skipped = w.next, w.skipped
		st.fresh = st.fresh || w.first
		if st.fresh {
			st.asked -= min(st.asked, r.size)
		}
	}
}

// beyond reports whether the device has less than r needs even with all that nobody uses: then no plan gives up anything for it. Caller holds a.mu and no shard.
func (a *Caching) beyond(r *request) bool {
	if a.plan == nil {
		return false
	}
	used := a.allocatedBytes()
	if limit := a.limit.Load(); r.size > limit-min(limit, used) {
		return true
	}
	info, err := a.driver.MemInfo()
	return err == nil && r.size > info.Free+uint64(a.dev.ReservedBytes.All.Current)-used
}

// unfollowed reports whether the present step has had little use for its plan so far. What comes before it begins to work is little, and says nothing of that.
func (st *steps) unfollowed() bool { return !st.fresh && st.missed+st.unknown > st.served }
