package plan

// treap is an ordered set of pairs, by a and then by b, in which a search for the first pair with a large b follows one path: each
// node knows the largest b below it. Nodes lie in one slice and are used again, so a long sweep leaves no garbage.
type treap struct {
	nodes []treapNode // nodes[0] stands for none
	spare []int32
	root  int32
	seed  uint32
}

type treapNode struct {
	a, b, most  uint64 // most: of the b of the node and all below it
	left, right int32
	prio        uint32
}

func newTreap() *treap { return &treap{nodes: make([]treapNode, 1), seed: 2463534242} }

func (n *treapNode) less(a, b uint64) bool { return n.a < a || n.a == a && n.b < b }

func (t *treap) pull(i int32) {
	n := &t.nodes[i]
	n.most = max(n.b, t.nodes[n.left].most, t.nodes[n.right].most)
}

// insert adds a pair that is not there.
func (t *treap) insert(a, b uint64) {
	t.seed ^= t.seed << 13
	t.seed ^= t.seed >> 17
	t.seed ^= t.seed << 5
	n := treapNode{a: a, b: b, most: b, prio: t.seed}
	var i int32
	if k := len(t.spare); k > 0 {
		i, t.spare = t.spare[k-1], t.spare[:k-1]
		t.nodes[i] = n
	} else {
		i = int32(len(t.nodes))
		t.nodes = append(t.nodes, n)
	}
	t.root = t.insertAt(t.root, i)
}

func (t *treap) insertAt(at, i int32) int32 {
	n := &t.nodes[i]
	if at == 0 {
		return i
	}
	if t.nodes[at].prio < n.prio {
		n.left, n.right = t.split(at, n.a, n.b)
		t.pull(i)
		return i
	}
	if t.nodes[at].less(n.a, n.b) {
		t.nodes[at].right = t.insertAt(t.nodes[at].right, i)
	} else {
		t.nodes[at].left = t.insertAt(t.nodes[at].left, i)
	}
	t.pull(at)
	return at
}

// split divides a subtree into what comes before the pair and the rest.
func (t *treap) split(at int32, a, b uint64) (before, rest int32) {
	if at == 0 {
		return 0, 0
	}
	if t.nodes[at].less(a, b) {
		t.nodes[at].right, rest = t.split(t.nodes[at].right, a, b)
		before = at
	} else {
		before, t.nodes[at].left = t.split(t.nodes[at].left, a, b)
		rest = at
	}
	t.pull(at)
	return before, rest
}

// remove takes out a pair that is there.
func (t *treap) remove(a, b uint64) { t.root = t.removeAt(t.root, a, b) }

func (t *treap) removeAt(at int32, a, b uint64) int32 {
	n := &t.nodes[at]
	switch {
	case at == 0:
		return 0
	case n.a == a && n.b == b:
		t.spare = append(t.spare, at)
		return t.merge(n.left, n.right)
	case n.less(a, b):
		n.right = t.removeAt(n.right, a, b)
	default:
		n.left = t.removeAt(n.left, a, b)
	}
	t.pull(at)
	return at
}

func (t *treap) merge(l, r int32) int32 {
	switch {
	case l == 0:
		return r
	case r == 0:
		return l
	case t.nodes[l].prio > t.nodes[r].prio:
		t.nodes[l].right = t.merge(t.nodes[l].right, r)
		t.pull(l)
		return l
	}
	t.nodes[r].left = t.merge(l, t.nodes[r].left)
	t.pull(r)
	return r
}

// from returns the first pair that is not before (a, b).
func (t *treap) from(a, b uint64) (x, y uint64, ok bool) {
	for at := t.root; at != 0; {
		n := &t.nodes[at]
		if n.less(a, b) {
			at = n.right
			continue
		}
		x, y, ok = n.a, n.b, true
		at = n.left
	}
	return x, y, ok
}

// before returns the last pair before (a, b).
func (t *treap) before(a, b uint64) (x, y uint64, ok bool) {
	for at := t.root; at != 0; {
		n := &t.nodes[at]
		if !n.less(a, b) {
			at = n.left
			continue
		}
		x, y, ok = n.a, n.b, true
		at = n.right
	}
	return x, y, ok
}

// firstLarge returns the first pair whose a is at least from and whose b is at least least.
func (t *treap) firstLarge(from, least uint64) (x, y uint64, ok bool) {
	at := t.firstLargeAt(t.root, from, least)
	return t.nodes[at].a, t.nodes[at].b, at != 0
}

func (t *treap) firstLargeAt(at int32, from, least uint64) int32 {
	for at != 0 && t.nodes[at].most >= least {
		n := &t.nodes[at]
		if n.a < from {
			at = n.right
			continue
		}
		if found := t.firstLargeAt(n.left, from, least); found != 0 {
			return found
		}
		if n.b >= least {
			return at
		}
		at = n.right
	}
	return 0
}
