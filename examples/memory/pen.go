package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

// cell is how much memory a character stands for.
const cell = device.MiB

// pen draws segments as rows of characters: a letter for each block in use, the small letter for one that was freed and waits for another
// stream, '#' for blocks that the tour has not named, and '.' for memory that is cached.
type pen struct {
	colour bool
	names  map[device.Ptr]byte // of blocks, by address
	order  map[device.Ptr]int  // of segments, as they came
	count  int
}

// draw is a row for each segment, in the order in which they came: addresses differ from run to run.
func (p *pen) draw(s memory.Snapshot) string {
	p.see(s)
	if len(s.Segments) == 0 {
		clear(p.names) // addresses may come again
		return "    (no segments)\n"
	}
	slices.SortFunc(s.Segments, func(a, b memory.SegmentInfo) int { return cmp.Compare(p.order[a.Address], p.order[b.Address]) })
	var rows strings.Builder
	for _, seg := range s.Segments {
		fmt.Fprintf(&rows, "    |%s|\n      %s\n", p.cells(seg), about(seg))
	}
	return rows.String()
}

// see numbers the segments that have come, and forgets those that have gone. Of two that have come at the same time the large one is the first.
func (p *pen) see(s memory.Snapshot) {
	there := map[device.Ptr]int{}
	slices.SortStableFunc(s.Segments, func(a, b memory.SegmentInfo) int { return cmp.Compare(a.Type, b.Type) })
	for _, seg := range s.Segments {
		n, known := p.order[seg.Address]
		if !known {
			p.count++
			n = p.count
		}
		there[seg.Address] = n
	}
	p.order = there
}

// about says what a segment is.
func about(s memory.SegmentInfo) string {
	text := fmt.Sprintf("segment of %s, %s pool, stream %d", device.FormatBytes(s.TotalSize), s.Type, s.Stream)
	if s.Expandable {
		text = "expandable " + text
	}
	if s.PoolID != [2]uint64{} {
		text += fmt.Sprintf(", private pool %d_%d", s.PoolID[0], s.PoolID[1])
	}
	return text
}

// cells are the characters of a segment. A cell in which a block ends and another begins shows the one that is in use.
func (p *pen) cells(s memory.SegmentInfo) string {
	marks := make([]byte, (s.TotalSize+cell-1)/cell)
	for _, b := range s.Blocks {
		first := uint64(b.Address - s.Address)
		for i := first / cell; i < (first+b.Size+cell-1)/cell; i++ {
			if m := p.mark(b); marks[i] == 0 || marks[i] == '.' {
				marks[i] = m
			}
		}
	}
	var text strings.Builder
	for _, m := range marks {
		text.WriteString(p.painted(m))
	}
	return text.String()
}

func (p *pen) mark(b memory.BlockInfo) byte {
	name, named := p.names[b.Address]
	switch {
	case b.State == memory.Inactive:
		return '.'
	case !named:
		name = '#'
	}
	if b.State == memory.ActivePendingFree {
		return name | 0x20 // the small letter
	}
	return name
}

// painted is a character in the colour of its block.
func (p *pen) painted(m byte) string {
	switch {
	case !p.colour:
		return string(m)
	case m == '.':
		return "\x1b[2m.\x1b[0m"
	}
	return fmt.Sprintf("\x1b[30;%dm%c\x1b[0m", 101+(int(m|0x20)-'a'+66)%6, m)
}

func (p *pen) strong(s string) string  { return p.in("1", s) }
func (p *pen) code(s string) string    { return p.in("36", s) }
func (p *pen) warning(s string) string { return p.in("33", s) }

func (p *pen) in(colour, s string) string {
	if !p.colour {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}
