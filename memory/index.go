package memory

import "math/bits"

// index holds the cached blocks of one pool of one stream, ordered by size, then by the age of the segment (its
// registration number), then by address: PyTorch's order. Best fit is the first block that is large enough.
//
// Sizes are counted in units of 512 bytes. Each size has a slot, which holds the blocks of that size as a treap in the order
// of age and address; almost always that is one block. Below 4 MiB, where most searches are, the slots are an array under
// two levels of bit sets; above, the size's digits in base 64 lead through a trie (trie.go). So finding the best fit is a few
// bit scans, however many blocks there are. The blocks are their own treap nodes, and trie nodes are used again: in the
// steady state no operation allocates.
//
// PyTorch has a std::set, a red-black tree of all free blocks of all streams: with n blocks, log n pointers to follow, each likely a
// cache miss, and an allocation for each insertion. The stream is the first part of its key; here each stream has its own index.
//
// A block's size, reg and ptr are its place in the index. They must not change while it is there.
type index struct {
	summary [shortLeaves / 64]uint64 // bit l: leaf l holds something
	short   [shortLeaves]*leaf       // made when first needed, then kept
	long    trie                     // of the larger sizes
	count   int                      // blocks, and their bytes
	bytes   uint64
	seed    uint32 // of the treaps' priorities
}

const (
	shortKeys   = 4 << 20 / minBlock // keys below have their slot in index.short
	shortLeaves = shortKeys / fanout
)

// keyOf is the size in units: exact, as every size is a multiple. So in one slot all sizes are equal.
func keyOf(b *block) uint64 { return b.size / minBlock }

// before is the order of the index: PyTorch's BlockComparatorSize. Among equal sizes the oldest segment comes first, so that the newer
// ones empty and can go back to the driver; and the lowest address, so that the free space of a segment stays together.
func before(a, b *block) bool {
	if a.size != b.size {
		return a.size < b.size
	}
	if a.reg != b.reg {
		return a.reg < b.reg
	}
	return a.ptr < b.ptr
}

// insert adds b, which must not be in an index. In a slot that holds others b sinks to where its priority says, and takes the
// subtree there apart for its own children: no rotations, and no way back up.
func (x *index) insert(b *block) {
	x.count++
	x.bytes += b.size
	b.left, b.right = nil, nil
	slot := x.slot(keyOf(b))
	if *slot == nil { // almost always. b keeps an old priority, or 0: any will do for the first
		*slot = b
		return
	}
	// xorshift: priorities only have to look random for the treap to stay shallow.
	s := x.seed + 0x9e3779b9
	s ^= s << 13
	s ^= s >> 17
	s ^= s << 5
	x.seed, b.prio = s, s
	link := slot
	for *link != nil && (*link).prio >= b.prio {
		if before(b, *link) {
			link = &(*link).left
		} else {
			link = &(*link).right
		}
	}
	splitTreap(*link, b)
	*link = b
}

// splitTreap divides the subtree t into b.left (before b) and b.right (after b). left and right are the links at which the next
// node of each side is to hang: on the one side always the rightmost, on the other the leftmost.
func splitTreap(t, b *block) {
	left, right := &b.left, &b.right
	for t != nil {
		if before(t, b) {
			*left = t
			left = &t.right
			t = t.right
		} else {
			*right = t
			right = &t.left
			t = t.left
		}
	}
	*left, *right = nil, nil
}

// remove takes b out; it must be there.
func (x *index) remove(b *block) {
	x.count--
	x.bytes -= b.size
	key := keyOf(b)
	if key >= shortKeys {
		var path triePath // on this goroutine's stack: clear walks it back up
		if slot := x.long.find(key, &path); unlink(slot, b) {
			x.long.clear(&path)
		}
		return
	}
	l, d := key/fanout, key%fanout
	if !unlink(&x.short[l].slots[d], b) {
		return // others of this size
	}
	if x.short[l].bits &^= 1 << d; x.short[l].bits == 0 {
		x.summary[l/64] &^= 1 << (l % 64)
	}
}

// unlink takes b out of the treap in slot and reports whether that is empty then.
func unlink(slot **block, b *block) bool {
	link := slot
	for *link != b {
		if before(b, *link) {
			link = &(*link).left
		} else {
			link = &(*link).right
		}
	}
	*link = mergeTreap(b.left, b.right)
	b.left, b.right = nil, nil
	return *slot == nil
}

// slot returns the slot of a key and marks it as not empty: the caller puts something there if there is nothing.
func (x *index) slot(key uint64) **block {
	if key >= shortKeys {
		return x.long.slot(key)
	}
	l, d := key/fanout, key%fanout
	at := x.short[l]
	if at == nil {
		at = new(leaf)
		x.short[l] = at
	}
	at.bits |= 1 << d
	x.summary[l/64] |= 1 << (l % 64)
	return &at.slots[d]
}

// from returns the treap of the first key that is there and not less than key, or nil.
func (x *index) from(key uint64) *block {
	if key >= shortKeys {
		return x.long.from(key)
	}
	// Three looks: in the key's own leaf, in the summary for the next leaf that is not empty, and in the trie, where all keys are
	// greater.
	l := key / fanout
	if at := x.short[l]; at != nil {
		if more := at.bits >> (key % fanout); more != 0 {
			return at.slots[(key+uint64(bits.TrailingZeros64(more)))%fanout]
		}
	}
	for l++; l < shortLeaves; l = (l | 63) + 1 { // by words of the summary, the first from l on
		if more := x.summary[l/64] >> (l % 64); more != 0 {
			at := x.short[l+uint64(bits.TrailingZeros64(more))]
			return at.slots[bits.TrailingZeros64(at.bits)%fanout]
		}
	}
	return x.long.from(shortKeys)
}

// upTo returns the treap of the last key that is there and not greater than key, or nil.
func (x *index) upTo(key uint64) *block {
	if key >= shortKeys {
		if t := x.long.upTo(key); t != nil {
			return t
		}
		key = shortKeys - 1
	}
	// Unlike from this is for what is done seldom (releaseOversize, checks), so it goes through the leaves one by one.
	l := key / fanout
	if at := x.short[l]; at != nil {
		if less := at.bits << (fanout - 1 - key%fanout); less != 0 {
			return at.slots[(key-uint64(bits.LeadingZeros64(less)))%fanout]
		}
	}
	for l > 0 {
		l--
		if at := x.short[l]; at != nil && at.bits != 0 {
			return at.slots[(bits.Len64(at.bits)-1)%fanout]
		}
	}
	return nil
}

// mergeTreap joins two treaps of which all of a is before all of b.
func mergeTreap(a, b *block) *block {
	var root *block
	link := &root
	for a != nil && b != nil {
		if a.prio >= b.prio {
			*link = a
			link = &a.right
			a = a.right
		} else {
			*link = b
			link = &b.left
			b = b.left
		}
	}
	if a != nil {
		*link = a
	} else {
		*link = b
	}
	return root
}

// leftmost returns the first block of a treap, nil of none.
func leftmost(t *block) *block {
	for t != nil && t.left != nil {
		t = t.left
	}
	return t
}

// rightmost returns the last block of a treap, nil of none.
func rightmost(t *block) *block {
	for t != nil && t.right != nil {
		t = t.right
	}
	return t
}

// atLeast returns the first block of size or more, or nil: best fit. Size may be any number: of an oversize setting, for one.
func (x *index) atLeast(size uint64) *block {
	return leftmost(x.from((size + minBlock - 1) / minBlock))
}

// after returns the block that follows b, which is in the index, or nil.
func (x *index) after(b *block) *block {
	// The last node at which the way to b, and on, turns left is the first after it.
	var next *block
	for t := x.from(keyOf(b)); t != nil; { // the slot of b's size
		if before(b, t) {
			next, t = t, t.left
		} else {
			t = t.right
		}
	}
	if next != nil {
		return next
	}
	return leftmost(x.from(keyOf(b) + 1))
}

// previous returns the block before b, which is in the index, or nil.
func (x *index) previous(b *block) *block {
	var prev *block
	for t := x.from(keyOf(b)); t != nil; {
		if before(t, b) {
			prev, t = t, t.right
		} else {
			t = t.left
		}
	}
	if prev != nil {
		return prev
	}
	return rightmost(x.upTo(keyOf(b) - 1))
}

// first returns the smallest block, or nil.
func (x *index) first() *block { return leftmost(x.from(1)) }

// last returns the block before which all others are, or nil.
func (x *index) last() *block { return rightmost(x.upTo(1<<(digitBits*maxDigits) - 1)) }

// all calls yield for each block in order. yield may remove the block that it is given, and no other.
func (x *index) all(yield func(*block) bool) {
	for b := x.first(); b != nil; {
		next := x.after(b)
		if !yield(b) {
			return
		}
		b = next
	}
}

const (
	digitBits = 6
	fanout    = 1 << digitBits
	maxDigits = 9 // sizes up to 2^62 bytes
)

// digits is the length of a key in base 64.
func digits(key uint64) int { return (bits.Len64(key) + digitBits - 1) / digitBits }

// digit is the digit of a key at a level, 0 being the last.
func digit(key uint64, level int) uint { return uint(key>>(level*digitBits)) % fanout }
