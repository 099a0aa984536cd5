// Package lzma unpacks files in the .lzma format, as "xz --format=lzma" writes them. The PTX of the kernels, which every program carries, takes
// well under half of gzip's bytes so. It is a decoder alone: docs/decisions.md weighs it against other ones.
//
// # The format
//
// A header of 13 bytes: lc, lp and pb (below) in one byte, the size of the window in four, and eight that are all ones, for an end marker
// says where the output ends. Then come bits, packed by a range coder (range.go).
//
// They say what to append to the output: a literal, which is a byte, or a match, which is a length and the distance back to where those
// bytes are already. What came last is the state. Each bit has a probability, which learns from it. Which one it is depends on the state and
// the position modulo 1<<pb, for literals on the upper lc bits of the byte before and the lower lp bits of the position.
//
// There is no checksum.
package lzma

import (
	"errors"
	"fmt"
	"strings"
)

// ErrCorrupt is the error of data that is not in the format, is cut off, or goes on behind its end.
var ErrCorrupt = errors.New("lzma: corrupt data")

// What is corrupt.
var (
	errHeader = errors.New("no header with an end marker")
	errShort  = errors.New("cut off")
	errFar    = errors.New("a match lies before the beginning")
	errEnd    = errors.New("wrong end")
)

const headerSize = 13

// Unpack returns what is packed. The size of the window does not matter: all of the output is at hand.
func Unpack(packed []byte) ([]byte, error) {
	if len(packed) < headerSize || packed[0] >= 9*5*5 || string(packed[5:headerSize]) != strings.Repeat("\xff", 8) {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, errHeader)
	}
	p := int(packed[0])
	d := decoder{lc: p % 9, lp: p / 9 % 5, pb: p / 9 / 5}
	d.literals = make([]literal, 1<<(d.lc+d.lp))
	d.out = make([]byte, 0, 16*len(packed)) // about what PTX comes to
	d.start(packed[headerSize:])
	err := d.run()
	switch {
	case d.short:
		err = errShort // whatever it led to
	case err == nil && (len(d.in) > 0 || d.code != 0): // an encoder ends at the lower end of its range
		err = errEnd
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w, after %d bytes", ErrCorrupt, err, len(d.out))
	}
	return d.out, nil
}

// The format's numbers.
const (
	states     = 12
	afterMatch = 7         // the first state in which what came last was no literal
	positions  = 1 << 4    // positions modulo 1<<pb, at most
	minLength  = 2         // of a match at a new distance
	endMarker  = 1<<32 - 1 // a distance
	alignBits  = 4         // the lowest bits of far distances: they have probabilities of their own
)

// literal are the probabilities of a literal: a tree, and two more for the bits of one behind a match, which differs from the byte that
// the match would have repeated; that byte's bit chooses between them.
type literal [3][1 << 8]prob

// decoder has the output, the state, and the probability of every bit.
type decoder struct {
	coder
	lc, lp, pb int
	out        []byte

	state int
	back  [4]uint32 // the last distances less 1, the last one first

	isMatch    [states][positions]prob
	isBack     [states]prob            // a match at one of the distances in back,
	isNotLast  [states]prob            // not at back[0],
	isOlder    [states]prob            // not at back[1],
	isOldest   [states]prob            // and not at back[2]
	isMany     [states][positions]prob // the match at back[0] has more than one byte
	literals   []literal               // by context
	newLength  lengths                 // of matches at new distances
	backLength lengths
	slots      [4][1 << 6]prob  // the upper two bits of a distance and how many bits follow, by the length of the match
	bits       [14][1 << 5]prob // the bits that follow, by slot; those of greater slots are even, but for the lowest
	lowest     [1 << alignBits]prob
}

// run unpacks until the end marker.
func (d *decoder) run() error {
	for !d.short {
		pos := len(d.out) & (1<<d.pb - 1)
		if d.bit(&d.isMatch[d.state][pos]) == 0 {
			if err := d.literal(); err != nil {
				return err
			}
			continue
		}
		length := d.match(pos)
		if d.back[0] == endMarker {
			return nil
		}
		if err := d.repeat(length); err != nil {
			return err
		}
	}
	return errShort
}

// literal appends one byte.
func (d *decoder) literal() error {
	before := byte(0)
	if n := len(d.out); n > 0 {
		before = d.out[n-1]
	}
	low := len(d.out) & (1<<d.lp - 1)
	l := &d.literals[low<<d.lc|int(before)>>(8-d.lc)]
	m := uint32(1) // the bits so far, behind a 1
	if d.state >= afterMatch {
		from := len(d.out) - 1 - int(d.back[0])
		if from < 0 {
			return errFar
		}
		for not := uint32(d.out[from]); m < 1<<8; {
			not <<= 1
			expected := not >> 8 & 1
			b := d.bit(&l[1+expected][m])
			m = m<<1 | b
			if b != expected { // from here on that byte says nothing
				break
			}
		}
	}
	for m < 1<<8 {
		m = m<<1 | d.bit(&l[0][m])
	}
	d.out = append(d.out, byte(m))
	switch {
	case d.state < 4:
		d.state = 0
	case d.state < 10:
		d.state -= 3
	default:
		d.state -= 6
	}
	return nil
}

// match reads a match: its distance comes to back[0].
func (d *decoder) match(pos int) (length int) {
	s := d.state
	if d.bit(&d.isBack[s]) == 0 {
		d.enter(7, 10)
		length = d.length(&d.newLength, pos)
		copy(d.back[1:], d.back[:])
		d.back[0] = d.distance(length)
		return length
	}
	if d.bit(&d.isNotLast[s]) == 0 {
		if d.bit(&d.isMany[s][pos]) == 0 {
			d.enter(9, 11)
			return 1
		}
	} else {
		i := 1
		if d.bit(&d.isOlder[s]) == 1 {
			i = 2 + int(d.bit(&d.isOldest[s]))
		}
		distance := d.back[i]
		copy(d.back[1:i+1], d.back[:i])
		d.back[0] = distance
	}
	d.enter(8, 11)
	return d.length(&d.backLength, pos)
}

// enter changes the state behind a match, by whether it came behind a literal or another match.
func (d *decoder) enter(behindLiteral, behindMatch int) {
	if d.state < afterMatch {
		d.state = behindLiteral
	} else {
		d.state = behindMatch
	}
}

// distance is the new distance, less 1, of a match.
func (d *decoder) distance(length int) uint32 {
	slot := d.tree(d.slots[min(length-minLength, len(d.slots)-1)][:], 6)
	if slot < 4 {
		return slot
	}
	n := int(slot/2 - 1)
	high := (2 | slot&1) << n
	if slot < uint32(len(d.bits)) {
		return high + d.reverse(d.bits[slot][:], n)
	}
	middle := d.even(n - alignBits)
	return high + middle<<alignBits + d.reverse(d.lowest[:], alignBits)
}

// repeat appends length bytes from back[0]. Some may be among those that it appends.
func (d *decoder) repeat(length int) error {
	from := len(d.out) - 1 - int(d.back[0])
	if from < 0 {
		return errFar
	}
	for length > 0 {
		n := min(length, len(d.out)-from)
		d.out = append(d.out, d.out[from:from+n]...)
		length -= n
		from += n
	}
	return nil
}
