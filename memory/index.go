package memory

import "math/bits"

// index holds the cached blocks of one pool of one stream, ordered by size, then by the age of the segment (its
// registration number), then by address: PyTorch's order. Best fit is the first block that is large enough.
//
// It is an array of bins by size, each a treap in that order, under a two-level bitmap of the bins in use. Sizes below
// exactLimit have a bin each, so the usual search is two bit scans and one look at a root; above, an octave has binsPerOctave
// bins. Everything is intrusive: nodes are the blocks, and no operation allocates.
type index struct {
	summary [(numBins + 4095) / 4096]uint64 // bit w: words[w] != 0
	words   [(numBins + 63) / 64]uint64     // bit b: roots[b] != nil
	roots   [numBins]*block
	count   int
	bytes   uint64
	seed    uint32
}

const (
	exactBits     = 21                    // sizes below 2 MiB ...
	exactLimit    = 1 << exactBits        // ...
	exactBins     = exactLimit / minBlock // ... have bins of one size
	octaveBits    = 6                     // above, 64 bins per octave
	binsPerOctave = 1 << octaveBits
	octaves       = 62 - exactBits // up to 2^62 bytes
	numBins       = exactBins + octaves*binsPerOctave
)

// binOf is the bin of a size; bins are in the order of sizes.
func binOf(size uint64) int {
	if size < exactLimit {
		return int(size / minBlock)
	}
	top := bits.Len64(size) - 1
	sub := int(size>>(top-octaveBits)) & (binsPerOctave - 1)
	return exactBins + (top-exactBits)*binsPerOctave + sub
}

// before is the order of the index.
func before(a, b *block) bool {
	if a.size != b.size {
		return a.size < b.size
	}
	if a.reg != b.reg {
		return a.reg < b.reg
	}
	return a.ptr < b.ptr
}

// insert adds b, which must not be in an index.
func (x *index) insert(b *block) {
	x.count++
	x.bytes += b.size
	bin := binOf(b.size)
	root := &x.roots[bin]
	b.left, b.right = nil, nil
	if *root == nil {
		*root = b
		x.words[bin/64] |= 1 << (bin % 64)
		x.summary[bin/4096] |= 1 << (bin / 64 % 64)
		return
	}
	// xorshift: priorities only have to look random for the treap to stay shallow.
	s := x.seed + 0x9e3779b9
	s ^= s << 13
	s ^= s >> 17
	s ^= s << 5
	x.seed, b.prio = s, s
	link := root
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

// splitTreap divides the subtree t into b.left (before b) and b.right (after b).
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
	bin := binOf(b.size)
	link := &x.roots[bin]
	for *link != b {
		if before(b, *link) {
			link = &(*link).left
		} else {
			link = &(*link).right
		}
	}
	*link = mergeTreap(b.left, b.right)
	b.left, b.right = nil, nil
	if x.roots[bin] == nil {
		x.words[bin/64] &^= 1 << (bin % 64)
		if x.words[bin/64] == 0 {
			x.summary[bin/4096] &^= 1 << (bin / 64 % 64)
		}
	}
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

// atLeast returns the first block of size or more, or nil.
func (x *index) atLeast(size uint64) *block {
	bin := binOf(size)
	if size >= exactLimit { // the bin also holds smaller blocks
		var best *block
		for t := x.roots[bin]; t != nil; {
			if t.size < size {
				t = t.right
			} else {
				best, t = t, t.left
			}
		}
		if best != nil {
			return best
		}
		bin++
	}
	return x.firstFrom(bin)
}

// firstFrom returns the first block of the first used bin from bin on, or nil.
func (x *index) firstFrom(bin int) *block {
	if bin = x.nextBin(bin); bin < 0 {
		return nil
	}
	t := x.roots[bin]
	for t.left != nil {
		t = t.left
	}
	return t
}

// nextBin returns the first used bin from bin on, or -1.
func (x *index) nextBin(bin int) int {
	if bin >= numBins {
		return -1
	}
	w := bin / 64
	if rest := x.words[w] >> (bin % 64); rest != 0 {
		return bin + bits.TrailingZeros64(rest)
	}
	w++
	for s := w / 64; s < len(x.summary); s++ {
		rest := x.summary[s]
		if s == w/64 {
			rest &= ^uint64(0) << (w % 64)
		}
		if rest != 0 {
			w = s*64 + bits.TrailingZeros64(rest)
			return w*64 + bits.TrailingZeros64(x.words[w])
		}
	}
	return -1
}

// after returns the block that follows b, which is in the index, or nil.
func (x *index) after(b *block) *block {
	var next *block
	for t := x.roots[binOf(b.size)]; t != nil; {
		if before(b, t) {
			next, t = t, t.left
		} else {
			t = t.right
		}
	}
	if next != nil {
		return next
	}
	return x.firstFrom(binOf(b.size) + 1)
}

// first returns the smallest block, or nil.
func (x *index) first() *block { return x.firstFrom(0) }

// last returns the block before which all others are, or nil.
func (x *index) last() *block {
	for w := len(x.words) - 1; w >= 0; w-- {
		if x.words[w] != 0 {
			t := x.roots[w*64+bits.Len64(x.words[w])-1]
			for t.right != nil {
				t = t.right
			}
			return t
		}
	}
	return nil
}

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

// previous returns the block before b, which is in the index, or nil.
func (x *index) previous(b *block) *block {
	bin := binOf(b.size)
	var prev *block
	for t := x.roots[bin]; t != nil; {
		if before(t, b) {
			prev, t = t, t.right
		} else {
			t = t.left
		}
	}
	for prev == nil && bin > 0 {
		bin--
		if t := x.roots[bin]; t != nil {
			for t.right != nil {
				t = t.right
			}
			prev = t
		}
	}
	return prev
}
