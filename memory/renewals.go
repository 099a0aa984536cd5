package memory

// Where gradients are kept and added to in some steps, and made anew in others, the same request is for a block that goes at once, or for one that stays for
// steps. Which of both it will be shows before it comes: the old gradients are given back. So what a step asks for in place of a block of a step before the
// last, which it has given back, is served beside the plan, by the memory that has come free, and says nothing of how long the plan's blocks live.

// renewals are the sizes of such blocks in bytes, by the request of their step.
type renewals map[int]uint64

// has reports whether a request, of a size, is for what comes in place of one of them. The caching allocator may have given that more than was asked for,
// but not so much that it would have split it.
func (r renewals) has(request int, size uint64) bool {
	if len(r) == 0 {
		return false
	}
	was, ok := r[request]
	return ok && size <= was && (size == was || size > smallLimit && was-size <= smallLimit)
}
