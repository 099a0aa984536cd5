package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// shiftBlock is a block of lines of results in a worker's work.
type shiftBlock struct {
	lines  []shiftLine
	places int
	size   int        // elements of the copy of a channel
	runs   []patchRun // what is copied of a channel
	chunks []int      // what is packed for a step of each panel, in pairs: from the copy, to the panel
	ends   []int      // of each panel's chunks
	wide   bool       // chunks are of 8 elements, not of 4

	copied, packed, sums []float32
}

// shiftLine is a line of results.
type shiftLine struct {
	at    [3]int // the first result
	count int
	from  int // its place in the copy
	place int // in the block
}

var shiftBlocks sync.Pool

const shiftBehind = 16 // elements that may be read or written behind the last

// plan sets b to count lines from first on.
func (b *shiftBlock) plan(s *shiftConv, first, count int) {
	b.lines, b.runs, b.places, b.size = b.lines[:0], b.runs[:0], 0, 0
	for end := first + count; first < end; {
		row := first / s.pieces
		at := [3]int{row / s.rows.Size, row % s.rows.Size, first % s.pieces * s.width}
		n := 1
		if s.pieces == 1 {
			n = min(end-first, s.rows.Size-at[1])
		}
		b.segment(s, at, n)
		first += n
	}
}

// segment adds n lines of one image.
func (b *shiftBlock) segment(s *shiftConv, at [3]int, n int) {
	count := min(s.width, s.columns.Size-at[2])
	h, w, p := &s.rows, &s.columns, &s.image
	for phase := range h.AtStep {
		for r := range s.depth {
			y := h.low + phase + (at[1]+r)*h.AtStep
			if y < 0 || y >= p.rows || r >= n+h.reach {
				continue
			}
			for side := range w.AtStep {
				x := w.low + side + at[2]*w.AtStep
				lo := max(0, panels(max(0, -x), w.AtStep))
				hi := min(count+w.reach, panels(max(0, p.columns-x), w.AtStep))
				if lo < hi {
					to := b.size + (phase*s.depth+r)*s.rowSize() + side*s.lineSize()
					b.runs = append(b.runs, patchRun{to + lo, at[0]*p.image + y*p.row + (x+lo*w.AtStep)*p.column, hi - lo})
				}
			}
		}
	}
	for r := range n {
		line := shiftLine{[3]int{at[0], at[1] + r, at[2]}, count, b.size + r*s.rowSize(), b.places}
		b.lines = append(b.lines, line)
		b.places += count
	}
	b.size += s.plane
}

// chunk cuts the lines into what is copied together for a step of a panel.
func (b *shiftBlock) chunk(s *shiftConv) {
	b.chunks, b.ends = b.chunks[:0], b.ends[:0]
	size, nr := 4, s.tile.nr
	if b.wide = s.width%8 == 0 || s.width > 16; b.wide {
		size = 8
	}
	for i := range b.lines {
		l := &b.lines[i]
		for x := 0; x < l.count; {
			column := (l.place + x) % nr
			if column == 0 && l.place+x > 0 {
				b.ends = append(b.ends, len(b.chunks))
			}
			n := min(l.count-x, nr-column)
			for i := 0; i < n; i += size {
				b.chunks = append(b.chunks, l.from+x+i, column+i)
			}
			x += n
		}
	}
	b.ends = append(b.ends, len(b.chunks))
}

// panel is the distance of packed panels.
func (b *shiftBlock) panel(s *shiftConv) int { return s.steps*s.tile.nr + shiftBehind }

// pack packs all channels.
func (b *shiftBlock) pack(s *shiftConv) {
	b.copied = sized(b.copied, b.size+shiftBehind)
	clear(b.copied)
	b.packed = sized(b.packed, len(b.ends)*b.panel(s))
	taps := len(s.offsets)
	for c := range s.channels {
		b.copy(s, b.copied, c)
		first := 0
		for i, end := range b.ends {
			to := b.packed[i*b.panel(s)+c*taps*s.tile.nr:]
			winogradLoops.shifts(&to[0], s.tile.nr, &b.copied[0], s.offsets, b.chunks[first:end], b.wide)
			first = end
		}
	}
}

// copy copies a channel to memory whose other elements are 0.
func (b *shiftBlock) copy(s *shiftConv, copied []float32, channel int) {
	base := offset(s.image.ptr, channel*s.image.channel, s.access.size)
	step := s.columns.AtStep * s.image.column
	for i := range b.runs {
		r := &b.runs[i]
		to, from := copied[r.to:][:r.n], offset(base, r.from, s.access.size)
		if step == 1 && s.access.direct {
			copy(to, slice[float32](from, r.n))
		} else {
			s.access.load(to, from, step)
		}
	}
}

func (b *shiftBlock) multiply(s *shiftConv) {
	mr, nr := s.tile.mr, s.tile.nr
	ld := len(b.ends) * nr
	rows := panels(s.outputs, mr) * mr
	b.sums = sized(b.sums, rows*ld)
	for j := range b.ends {
		for i := 0; i < rows; i += mr {
			s.tile.tile(s.steps, &s.filters[i*s.steps], &b.packed[j*b.panel(s)], &b.sums[i*ld+j*nr], ld, 1, false)
		}
	}
}

// finish writes the results.
func (b *shiftBlock) finish(s *shiftConv) {
	ld := len(b.ends) * s.tile.nr
	joined := s.pieces == 1 && s.dst.stride[1] == s.width*s.dst.stride[2]
	for k := range s.outputs {
		row := b.sums[k*ld:][:b.places]
		if s.bias != nil {
			bias := s.bias[k]
			for i := range row {
				row[i] += bias
			}
		}
		for i := 0; i < len(b.lines); {
			l := &b.lines[i]
			n := l.count
			for i++; joined && i < len(b.lines) && b.lines[i].at[0] == l.at[0]; i++ {
				n += l.count
			}
			b.store(s, s.dst.place(k, l.at, s.access.size), row[l.place:][:n])
		}
	}
}

func (b *shiftBlock) store(s *shiftConv, p device.Ptr, row []float32) {
	s.access.store(p, s.dst.stride[2], row)
}

// shiftsGo packs taps: for each offset, it copies chunks of 8 or 4 elements from src + offset to dst, from left to right; the next offset
// goes to nr elements further on. chunks are pairs of a place in src and one in dst.
func shiftsGo(dst *float32, nr int, src *float32, offsets, chunks []int, wide bool) {
	n := 4
	if wide {
		n = 8
	}
	for t, at := range offsets {
		to, from := offsetElements(dst, t*nr), offsetElements(src, at)
		for i := 0; i < len(chunks); i += 2 {
			copy(elementsAt(offsetElements(to, chunks[i+1]), n), elementsAt(offsetElements(from, chunks[i]), n))
		}
	}
}
