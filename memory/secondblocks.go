package memory

// The same request may be for a block that outlives its step in one step, and in the next, while that block is in use, for one that goes at once: a sum that begins anew every few steps, say, and
// what is added to it. Both have the same size at the same place of steps that are alike, and nothing of the step itself tells one from the other; but whether there is a first one does. Where
// the second ones have always been short-lived lately they may lie in gaps that the step leaves in the arena, as nothing of the next step comes into their way.

// firstBlocks are the newest blocks in use that have outlived their steps where the plan expects that, by the request of the step.
type firstBlocks map[int]firstBlock

type firstBlock struct {
	step uint32 // in which it was asked for
	size uint64
}

// has reports whether a request of a size is for a second block.
func (f firstBlocks) has(request int, size uint64) bool {
	return len(f) != 0 && f[request].size == size
}

// freed takes in that the block of a request is free again which an earlier step had asked for.
func (f firstBlocks) freed(request int, step uint32) {
	if len(f) != 0 && f[request].step == step {
		delete(f, request)
	}
}

// keep takes in the blocks of a step that was so far the newest one, which are in use after its end.
func (f firstBlocks) keep(r *stepRecord, p *stepProgram, step uint32) {
	for _, i := range r.open {
		if r.entries[i].end == 0 && p.stays[i] {
			f[int(i)] = firstBlock{step, p.sizes[i]}
		}
	}
}

// seconds is how long the second blocks of a request lived.
type seconds struct {
	times  int32 // in a row that they were gone at the end of their step
	enough int32 // times until that is expected of the next: twice as many after each that was not
	end    int32 // the latest, as in entry
}

// lived takes in when one was free, in a step of n requests.
func (s *seconds) lived(end, n int32) {
	if end != 0 && end <= n {
		s.times, s.end = s.times+1, max(s.end, end)
		return
	}
	if s.goes() {
		s.enough = min(2*max(s.enough, firstBrief), lastSettled)
	}
	s.times, s.end = 0, 0
}

// goes reports whether the next one is expected to be gone at the end of its step.
func (s *seconds) goes() bool { return s.times >= max(s.enough, firstBrief) }
