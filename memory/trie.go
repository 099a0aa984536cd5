package memory

import "math/bits"

// trie maps keys, which are at least 1, to slots. Keys with different numbers of digits have roots of their own, so short
// keys have short paths; a key with more digits is greater. Branches hold no pointers: the collector does not look at them.
type trie struct {
	roots    [maxDigits + 1]int32 // by number of digits: the branch, or for one digit the leaf, where the path begins
	used     uint32               // bit n: there are keys of n digits
	branches []branch             // the first is not used, so that 0 is no branch
	leaves   []*leaf              // likewise
	spare    [2][]int32           // branches and leaves to use again
}

// branch is an inner node. bits says which of the kids there are; the others are undefined.
type branch struct {
	bits uint64
	kids [fanout]int32 // branches, or, above the last digit, leaves
}

// leaf holds the slots of 64 neighbouring sizes. bits says which are not empty.
type leaf struct {
	bits  uint64
	slots [fanout]*block
}

// triePath is how a key was found: the node at each level, the leaf's being level 0.
type triePath struct {
	key    uint64
	digits int
	nodes  [maxDigits]int32
}

// slot returns the slot of a key and marks it as not empty: the caller puts something there if there is nothing. It is
// valid until the slot is cleared.
func (t *trie) slot(key uint64) **block {
	n := digits(key)
	if t.used>>n&1 == 0 {
		t.roots[n] = t.newNode(n - 1)
		t.used |= 1 << n
	}
	at := t.roots[n]
	for level := n - 1; level > 0; level-- {
		d := digit(key, level)
		if t.branches[at].bits>>d&1 == 0 {
			kid := t.newNode(level - 1) // may move the branches
			b := &t.branches[at]
			b.bits |= 1 << d
			b.kids[d] = kid
		}
		at = t.branches[at].kids[d]
	}
	l, d := t.leaves[at], digit(key, 0)
	l.bits |= 1 << d
	return &l.slots[d]
}

// newNode returns an empty leaf for level 0, else an empty branch.
func (t *trie) newNode(level int) int32 {
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
	t.branches = append(t.branches, branch{})
	return int32(len(t.branches) - 1)
}

// find returns the slot of a key that is there, and the path to it.
func (t *trie) find(key uint64, p *triePath) **block {
	n := digits(key)
	p.key, p.digits = key, n
	at := t.roots[n]
	for level := n - 1; level > 0; level-- {
		p.nodes[level] = at
		at = t.branches[at].kids[digit(key, level)]
	}
	p.nodes[0] = at
	return &t.leaves[at].slots[digit(key, 0)]
}

// clear marks the slot that find returned as empty, and takes nodes that are empty then out.
func (t *trie) clear(p *triePath) {
	for level := range p.digits {
		at := p.nodes[level]
		var set *uint64
		if level == 0 {
			set = &t.leaves[at].bits
		} else {
			set = &t.branches[at].bits
		}
		if *set &^= 1 << digit(p.key, level); *set != 0 {
			return
		}
		kind := min(level, 1)
		t.spare[kind] = append(t.spare[kind], at)
	}
	t.used &^= 1 << p.digits
}

// from returns the slot's content of the first key that is there and not less than key, or nil.
func (t *trie) from(key uint64) *block {
	n := digits(key)
	if n > maxDigits {
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

// fromNode is from below one node.
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
		if found := t.fromNode(b.kids[d], level-1, key); found != nil {
			return found
		}
	}
	if more := b.bits >> d >> 1; more != 0 {
		return t.least(b.kids[d+1+uint(bits.TrailingZeros64(more))], level-1)
	}
	return nil
}

// least returns the content of the first slot below a node.
func (t *trie) least(at int32, level int) *block {
	for ; level > 0; level-- {
		b := &t.branches[at]
		at = b.kids[bits.TrailingZeros64(b.bits)%fanout]
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
		if found := t.upToNode(b.kids[d], level-1, key); found != nil {
			return found
		}
	}
	if less := b.bits & (1<<d - 1); less != 0 {
		return t.greatest(b.kids[bits.Len64(less)-1], level-1)
	}
	return nil
}

// greatest returns the content of the last slot below a node.
func (t *trie) greatest(at int32, level int) *block {
	for ; level > 0; level-- {
		b := &t.branches[at]
		at = b.kids[(bits.Len64(b.bits)-1)%fanout]
	}
	l := t.leaves[at]
	return l.slots[(bits.Len64(l.bits)-1)%fanout]
}
