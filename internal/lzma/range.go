package lzma

import "encoding/binary"

// prob is the probability that a bit is 0, in 2048ths above one half: its zero value is where all begin.
type prob int16

const (
	half  = 1 << 10 // in 2048ths
	learn = 5       // a bit moves its probability by a 32nd of what is left in its direction
)

// coder turns input into bits. Its range is cut in two at each bit, in proportion to the probability; the code tells on which side it lies.
type coder struct {
	in    []byte // what was not read yet
	span  uint32 // the size of the range
	code  uint32 // the place in it
	short bool   // the input was too short
}

// start reads the first code. The byte before it is always 0.
func (c *coder) start(in []byte) {
	const first = 5
	if len(in) < first || in[0] != 0 {
		c.short = true
		return
	}
	c.in, c.span, c.code = in[first:], 1<<32-1, binary.BigEndian.Uint32(in[1:])
}

// fill keeps at least 24 bits of the range.
func (c *coder) fill() {
	if c.span >= 1<<24 {
		return
	}
	c.span <<= 8
	c.code <<= 8
	if len(c.in) == 0 {
		c.short = true
		return
	}
	c.code |= uint32(c.in[0])
	c.in = c.in[1:]
}

// bit is the next bit, by its probability, which learns of it.
func (c *coder) bit(p *prob) uint32 {
	bound := c.span / (2 * half) * uint32(half+*p)
	if c.code < bound {
		c.span = bound
		*p += (half - *p) >> learn
		c.fill()
		return 0
	}
	c.span -= bound
	c.code -= bound
	*p -= (half + *p) >> learn
	c.fill()
	return 1
}

// even are n bits for each of which 0 and 1 are as likely, the highest first.
func (c *coder) even(n int) (v uint32) {
	for range n {
		c.span >>= 1
		b := uint32(0)
		if c.code >= c.span {
			c.code -= c.span
			b = 1
		}
		c.fill()
		v = v<<1 | b
	}
	return v
}

// tree are n bits, the highest first: each has a probability for each value of those before it. tree has 1<<n probabilities.
func (c *coder) tree(tree []prob, n int) uint32 {
	m := uint32(1)
	for range n {
		m = m<<1 | c.bit(&tree[m])
	}
	return m - 1<<n
}

// reverse is tree, the lowest bit first.
func (c *coder) reverse(tree []prob, n int) (v uint32) {
	m := uint32(1)
	for i := range n {
		b := c.bit(&tree[m])
		m = m<<1 | b
		v |= b << i
	}
	return v
}

// lengths are the probabilities of lengths: 8 short ones, 8 middle ones, 256 long ones.
type lengths struct {
	isMore, isLong prob
	short, middle  [positions][1 << 3]prob
	long           [1 << 8]prob
}

// length is a length at a position.
func (c *coder) length(l *lengths, pos int) int {
	if c.bit(&l.isMore) == 0 {
		return minLength + int(c.tree(l.short[pos][:], 3))
	}
	if c.bit(&l.isLong) == 0 {
		return minLength + 8 + int(c.tree(l.middle[pos][:], 3))
	}
	return minLength + 16 + int(c.tree(l.long[:], 8))
}
