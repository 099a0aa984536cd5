package memory

import "math/bits"

// trie maps keys, which are at least 64, to slots. Keys with different numbers of digits have roots of their own, so short
// keys have short paths; a key with more digits is greater. Branches hold no pointers: the collector does not look at them.
//
// Links are places in branches and leaves: writing one needs no write barrier. Each node has a bit for each child that holds
// something: from and upTo find the nearest one by a bit scan at each level, and go down in vain at most along the key's own digits.
//
//	size 40 MiB = key 81920 = digits 20,0,0 in base 64:   roots[3] -> children[20] -> children[0] -> slots[0]
type trie struct {
	roots    [maxDigits + 1]int32 // by number of digits: the branch where the path begins
	used     uint32               // bit n: there are keys of n digits
	branches []branch             // the first is not used, so that 0 is no branch
	leaves   []*leaf              // likewise
	spare    [2][]int32           // leaves and branches to use again. All zero, as they were when new
	idle     int                  // leaves that are empty and still in their place
	broken   bool                 // check found bits that do not tell the truth
}

// maxIdle is how many empty leaves stay where they are. Programs free and take the same few sizes all the time; taking the
// leaf out and putting it back would be most of the work.
const maxIdle = 256

// branch is an inner node. bits says which of the children hold something. The others are empty, or 0 if they do not exist: a
// search goes by bits alone, and children outlive it so that slot finds them again.
type branch struct {
	bits     uint64
	children [fanout]int32 // branches, or, above the last digit, leaves
}

// leaf holds the slots of 64 neighbouring sizes. bits says which are not empty.
type leaf struct {
	bits  uint64
	slots [fanout]*block
}

// triePath is how a key was found: the node at each level, the leaf's being level 0. Nodes do not know their parents, and clear has
// to go up.
type triePath struct {
	key    uint64
	digits int
	nodes  [maxDigits]int32
}

// slot returns the slot of a key and marks it as not empty: the caller puts something there if there is nothing. It is
// valid until the slot is cleared.
func (t *trie) slot(key uint64) **block {
	n := digits(key)
	if t.roots[n] == 0 {
		t.roots[n] = t.newNode(n - 1)
	}
	t.used |= 1 << n
	at := t.roots[n]
	for level := n - 1; level > 0; level-- { // bits are set on the way down, as it is known that something will be there
		d := digit(key, level)
		if t.branches[at].children[d] == 0 {
			child := t.newNode(level - 1) // may move the branches
			t.branches[at].children[d] = child
		}
		b := &t.branches[at]
		b.bits |= 1 << d
		at = b.children[d]
	}
	l, d := t.leaves[at], digit(key, 0)
	if l.bits == 0 { // it was idle, or is new and counted so
		t.idle--
	}
	l.bits |= 1 << d
	return &l.slots[d]
}

// newNode returns an empty leaf for level 0, else an empty branch. A new leaf counts as idle until something is in it.
func (t *trie) newNode(level int) int32 {
	if level == 0 {
		t.idle++
	}
	kind := min(level, 1)
	if s := t.spare[kind]; len(s) > 0 {
		t.spare[kind] = s[:len(s)-1]
		return s[len(s)-1]
	}
	if kind == 0 {
		if t.leaves == nil {
			t.leaves = []*leaf{nil}
		}
		t.leaves = append(t.leaves, new(leaf))
		return int32(len(t.leaves) - 1)
	}
	if t.branches == nil {
		t.branches = make([]branch, 1, 4)
	}
	t.branches = append(t.branches, branch{}) // pointers to branches do not survive this; leaves are apart, as slots are pointed to
	return int32(len(t.branches) - 1)
}

// find returns the slot of a key that is there, and the path to it.
func (t *trie) find(key uint64, p *triePath) **block {
	n := digits(key)
	p.key, p.digits = key, n
	at := t.roots[n]
	for level := n - 1; level > 0; level-- {
		p.nodes[level] = at
		at = t.branches[at].children[digit(key, level)]
	}
	p.nodes[0] = at
	return &t.leaves[at].slots[digit(key, 0)]
}

// clear marks the slot that find returned as empty. A leaf that is empty then stays in its place, unless too many do: then
// it is taken out, and with it the branches that hold nothing else.
func (t *trie) clear(p *triePath) {
	l := t.leaves[p.nodes[0]]
	if l.bits &^= 1 << digit(p.key, 0); l.bits != 0 {
		return
	}
	t.idle++
	remove := t.idle > maxIdle // this one; those that stayed before go when they are used and emptied again
	if remove {
		t.idle--
		t.spare[0] = append(t.spare[0], p.nodes[0])
	}
	// Up the path, as far as nodes become empty by it. bits and existence are two things: a node that holds nothing may stay.
	for level := 1; level < p.digits; level++ {
		b, d := &t.branches[p.nodes[level]], digit(p.key, level)
		b.bits &^= 1 << d
		if remove {
			b.children[d] = 0
			remove = b.children == [fanout]int32{}
			if remove {
				t.spare[1] = append(t.spare[1], p.nodes[level])
			}
		}
		if b.bits != 0 {
			return // it still holds something, so do those above
		}
	}
	t.used &^= 1 << p.digits
	if remove {
		t.roots[p.digits] = 0
	}
}

// from returns the slot's content of the first key that is there and not less than key, or nil.
func (t *trie) from(key uint64) *block {
	n := digits(key)
	if n > maxDigits { // no block is so large, but a setting may ask for one
		return nil
	}
	if t.used>>n&1 != 0 {
		if b := t.fromNode(t.roots[n], n-1, key); b != nil {
			return b
		}
	}
	if more := t.used >> (n + 1); more != 0 {
		n += 1 + bits.TrailingZeros32(more)
		return t.least(t.roots[n], n-1)
	}
	return nil
}

// fromNode is from below one node. It goes down where the key's own digits lead as long as there is something; if that ends in
// nothing, each level on the way back has one more look, at its later children, of which the first bit set is sure to hold it.
func (t *trie) fromNode(at int32, level int, key uint64) *block {
	d := digit(key, level)
	if level == 0 {
		l := t.leaves[at]
		if more := l.bits >> d; more != 0 {
			return l.slots[d+uint(bits.TrailingZeros64(more))]
		}
		return nil
	}
	b := &t.branches[at]
	if b.bits>>d&1 != 0 {
		if found := t.fromNode(b.children[d], level-1, key); found != nil {
			return found
		}
	}
	if more := b.bits >> d >> 1; more != 0 { // two shifts: for one by d+1, which may be 64, the compiler would add a test
		return t.least(b.children[d+1+uint(bits.TrailingZeros64(more))], level-1)
	}
	return nil
}

// least returns the content of the first slot below a node.
func (t *trie) least(at int32, level int) *block {
	for ; level > 0; level-- {
		b := &t.branches[at]
		at = b.children[bits.TrailingZeros64(b.bits)%fanout]
	}
	l := t.leaves[at]
	return l.slots[bits.TrailingZeros64(l.bits)%fanout]
}

// upTo returns the slot's content of the last key that is there and not greater than key, or nil.
func (t *trie) upTo(key uint64) *block {
	if key == 0 {
		return nil
	}
	n := digits(key)
	if t.used>>n&1 != 0 {
		if b := t.upToNode(t.roots[n], n-1, key); b != nil {
			return b
		}
	}
	if less := t.used & (1<<n - 1); less != 0 {
		n = bits.Len32(less) - 1
		return t.greatest(t.roots[n], n-1)
	}
	return nil
}

// upToNode is upTo below one node.
func (t *trie) upToNode(at int32, level int, key uint64) *block {
	d := digit(key, level)
	if level == 0 {
		l := t.leaves[at]
		if less := l.bits << (fanout - 1 - d); less != 0 {
			return l.slots[d-uint(bits.LeadingZeros64(less))]
		}
		return nil
	}
	b := &t.branches[at]
	if b.bits>>d&1 != 0 {
		if found := t.upToNode(b.children[d], level-1, key); found != nil {
			return found
		}
	}
	if less := b.bits & (1<<d - 1); less != 0 {
		return t.greatest(b.children[bits.Len64(less)-1], level-1)
	}
	return nil
}

// greatest returns the content of the last slot below a node.
func (t *trie) greatest(at int32, level int) *block {
	for ; level > 0; level-- {
		b := &t.branches[at]
		at = b.children[(bits.Len64(b.bits)-1)%fanout]
	}
	l := t.leaves[at]
	return l.slots[(bits.Len64(l.bits)-1)%fanout]
}
