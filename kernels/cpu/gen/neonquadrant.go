package main

// quadrant computes both nodes of an argument when the first of them comes, in float64, one half of the vector after the other.
func (b *neonBody) quadrant(n *node) {
	for other, r := range b.rest {
		if other.args[0] == n.args[0] {
			b.registers[n] = r
			return
		}
	}
	c := func(i int) vreg {
		if r, ok := b.kept[quadrantConstants[i]]; ok {
			return r
		}
		r := b.take()
		b.set(r, quadrantConstants[i])
		b.temporary = append(b.temporary, r)
		return r
	}
	twoOverPi, high, low, shift := c(0), c(1), c(2), c(3)
	x := b.register(n.args[0])
	k, left := b.take(), b.take()
	var turns [2]vreg
	for half := range 2 {
		wide, t, r := b.take(), b.take(), b.take()
		turns[half] = t
		b.widen(wide, x, half == 1)
		b.move(t, shift)
		b.three(vFmla, true, t, wide, twoOverPi)
		b.three(vFsub, true, r, t, shift)
		b.three(vFmls, true, wide, r, high)
		b.three(vFmls, true, wide, r, low)
		b.narrow(left, wide, half == 1)
		b.give(wide)
		b.give(r)
	}
	b.three(vUzp1, false, k, turns[0], turns[1]) // the lower halves
	b.give(turns[0])
	b.give(turns[1])
	b.registers[n], b.rest[n] = k, left
	if n.op != "quadrant" {
		b.registers[n], b.rest[n] = left, k
	}
}
