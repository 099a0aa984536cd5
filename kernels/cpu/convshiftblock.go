package cpu

import (
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// shiftBlock is a block of lines of results in a worker's work.
type shiftBlock struct {
	lines     []shiftLine
	low       int // the first output, and the one after the last
	high      int
	places    int
	size      int         // elements of the copy of a channel
	runs      []patchRun  // what is copied of a channel
	moves     []alikeRuns // the same, runs that are alike together
	filled    []patchRun  // what is copied of a channel in the block before
	isEmpty   bool        // whether copies are, but for that
	stores    []stored    // how the lines of an output are written
	chunks    []int       // what is packed for a step of each panel, in pairs: from the copy, to the panel
	ends      []int       // of each panel's chunks
	chunkSize int         // elements of a chunk
	whole     int         // panels of which tiles write the results where they belong

	offsets              []int // of each step of some channels, in their copies
	copied, packed, sums []float32
}

// alikeRuns are a number of runs of the same length and at the same distances.
type alikeRuns struct {
	patchRun
	count int
	down  patchRun
}

// stored are lines of results that lie side by side in a block, and one below the other in the image.
type stored struct{ line, lines, count int }

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
	b.moves = b.moves[:0]
	for i := 0; i < len(b.runs); {
		n, down := b.alike(i)
		b.moves = append(b.moves, alikeRuns{b.runs[i], n, down})
		i += n
	}
	b.stores = b.stores[:0]
	for i, l := range b.lines {
		switch last := len(b.stores) - 1; {
		case i > 0 && b.follows(s, i):
			b.stores[last].count += l.count
		case i > 0 && s.pieces == 1 && s.pair != alone && l.at[0] == b.lines[i-1].at[0]:
			b.stores[last].lines++
		default:
			b.stores = append(b.stores, stored{i, 1, l.count})
		}
	}
}

// segment adds n lines of one image.
func (b *shiftBlock) segment(s *shiftConv, at [3]int, n int) {
	count := min(s.width, s.columns.Size-at[2])
	h, w, p := &s.rows, &s.columns, &s.image
	for phase := range h.AtStep {
		if !h.meets(phase) {
			continue
		}
		for r := range s.depth {
			y := h.low + phase + (at[1]+r)*h.AtStep
			if y < 0 || y >= p.rows || r >= n+h.reach {
				continue
			}
			for side := range w.AtStep {
				if !w.meets(side) {
					continue
				}
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
	nr := s.tile.nr
	switch w := s.width; {
	case winogradLoops.widest == 16 && (w%16 == 0 || w > 32):
		b.chunkSize = 16
	case w%8 == 0 || w > 16:
		b.chunkSize = 8
	default:
		b.chunkSize = 4
	}
	size := b.chunkSize
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
func (b *shiftBlock) panel(s *shiftConv) int { return s.group*len(s.offsets)*s.tile.nr + shiftBehind }

// compute computes the sums, some channels at a time: their panels stay in the caches until they are multiplied.
func (b *shiftBlock) compute(s *shiftConv) {
	b.empty(s)
	b.packed = sized(b.packed, len(b.ends)*b.panel(s))
	b.sums = sized(b.sums, panels(b.high-b.low, s.tile.mr)*s.tile.mr*len(b.ends)*s.tile.nr)
	b.whole = 0
	if s.pair == alone && b.joined(s) && s.dst.stride[2] == 1 && s.access.direct && s.bias == nil {
		b.whole = b.places / s.tile.nr
	}
	for c := 0; c < s.channels; c += s.group {
		n := min(s.group, s.channels-c)
		b.order(s, n)
		b.pack(s, c, n)
		b.multiply(s, c, n)
	}
}

// empty clears what copies of channels do not fill, unless it is what they have not filled before either.
func (b *shiftBlock) empty(s *shiftConv) {
	size := s.group*b.size + shiftBehind
	if b.isEmpty && len(b.copied) == size && slices.EqualFunc(b.runs, b.filled, func(r, f patchRun) bool { return r.to == f.to && r.n == f.n }) {
		return
	}
	b.copied = sized(b.copied, size)
	clear(b.copied)
	b.filled, b.isEmpty = append(b.filled[:0], b.runs...), true
}

// order sets offsets to those of the steps of n channels: channel by channel, or tap by tap where kernels lie so.
func (b *shiftBlock) order(s *shiftConv, n int) {
	b.offsets = b.offsets[:0]
	if s.turned.of != nil {
		for _, at := range s.offsets {
			for c := range n {
				b.offsets = append(b.offsets, c*b.size+at)
			}
		}
		return
	}
	for c := range n {
		for _, at := range s.offsets {
			b.offsets = append(b.offsets, c*b.size+at)
		}
	}
}

// pack packs n channels from first on.
func (b *shiftBlock) pack(s *shiftConv, first, n int) {
	for c := range n {
		b.copy(s, b.copied[c*b.size:], first+c)
	}
	from := 0
	for i, end := range b.ends {
		winogradLoops.shifts(&b.packed[i*b.panel(s)], s.tile.nr, &b.copied[0], b.offsets[:n*len(s.offsets)], b.chunks[from:end], b.chunkSize)
		from = end
	}
}

// copy copies a channel to memory whose other elements are 0.
func (b *shiftBlock) copy(s *shiftConv, copied []float32, channel int) {
	base := offset(s.image.ptr, channel*s.image.channel, s.access.size)
	step := s.columns.AtStep * s.image.column
	for i := range b.moves {
		r := &b.moves[i]
		to, from := copied[r.to:][:r.n], offset(base, r.from, s.access.size)
		switch {
		case step == 1 && s.access.direct && vector.moveRows != nil && r.n >= leastMoved:
			vector.moveRows(r.count, &bytesOf(to)[0], 4*r.down.to, &slice[byte](from, 1)[0], 4*r.down.from, 4*r.n)
		case step == 2 && s.access.direct && everySecondRows != nil && r.n >= leastSeconds:
			everySecondRows(r.count, r.n, &to[0], 4*r.down.to, &slice[float32](from, 2*r.n-1)[0], 4*r.down.from)
		default:
			for j := range r.count {
				b.copyRun(s, copied[r.to+j*r.down.to:][:r.n], offset(from, j*r.down.from, s.access.size), step)
			}
		}
	}
}

func (b *shiftBlock) copyRun(s *shiftConv, to []float32, from device.Ptr, step int) {
	if step == 1 && s.access.direct {
		copy(to, slice[float32](from, len(to)))
	} else {
		s.access.load(to, from, step)
	}
}

// leastMoved is how many elements vector.moveRows moves at least.
const leastMoved = 8

// alike is how many runs from i on are of the same length and at the same distances, and these.
func (b *shiftBlock) alike(i int) (n int, down patchRun) {
	rest := b.runs[i:]
	for n = 1; n < len(rest) && rest[n].n == rest[0].n; n++ {
		d := patchRun{to: rest[n].to - rest[n-1].to, from: rest[n].from - rest[n-1].from}
		if n > 1 && d != down {
			break
		}
		down = d
	}
	return n, down
}

// everySecondRows copies every second element of rows, n for each, of which the last one is the last that is read. Distances of rows are in bytes. It is nil
// where the processor has no instructions for it.
var everySecondRows func(rows, n int, dst *float32, to int, src *float32, from int)

// leastSeconds is how many elements everySecondRows and toEverySecond copy at least.
const leastSeconds = 9

// multiply adds to the sums of its outputs what n channels from first on give, or sets them to that if they are the first.
func (b *shiftBlock) multiply(s *shiftConv, first, n int) {
	compute, mr := b.tile, s.tile.mr
	if s.turned.of != nil {
		compute = b.turnedTile
	}
	if (b.high-b.low)*n*len(s.offsets) > shiftFilters { // the kernels are read once, the image again and again
		for i := b.low; i < b.high; i += mr {
			for j := range b.ends {
				compute(s, i, j, first, n)
			}
		}
		return
	}
	for j := range b.ends {
		for i := b.low; i < b.high; i += mr {
			compute(s, i, j, first, n)
		}
	}
}

// tile is multiply for outputs from i on, and panel j.
func (b *shiftBlock) tile(s *shiftConv, i, j, first, n int) {
	taps := len(s.offsets)
	to, ld := b.results(s, i, j)
	s.tile.tile(n*taps, &s.filters[i*s.steps+first*taps*s.tile.mr], &b.packed[j*b.panel(s)], to, ld, 1, first > 0)
}

// results is where the tile of outputs from i on and panel j goes, and the distance of outputs there.
func (b *shiftBlock) results(s *shiftConv, i, j int) (*float32, int) {
	if j < b.whole && i+s.tile.mr <= s.outputs {
		return &slice[float32](offset(s.dst.place(i, b.lines[0].at, s.access.size), j*s.tile.nr, s.access.size), 1)[0], s.dst.row
	}
	ld := len(b.ends) * s.tile.nr
	return &b.sums[(i-b.low)*ld+j*s.tile.nr], ld
}

// joined reports whether the results of all lines lie one behind the other.
func (b *shiftBlock) joined(s *shiftConv) bool {
	n := len(b.lines)
	return b.lines[n-1].at[0] == b.lines[0].at[0] && (n == 1 || b.follows(s, 1))
}

// follows reports whether the results of line i lie behind those of the line before it.
func (b *shiftBlock) follows(s *shiftConv, i int) bool {
	return s.pieces == 1 && s.pair == alone && s.dst.stride[1] == s.width*s.dst.stride[2] && b.lines[i].at[0] == b.lines[i-1].at[0]
}

// turnedTile is tile for kernels that are packed for all phases.
func (b *shiftBlock) turnedTile(s *shiftConv, i, j, first, n int) {
	nr, wide := s.tile.nr, s.columns.Taps
	to, ld := b.results(s, i, j)
	for t := range s.offsets {
		s.tile.tile(n, s.turned.filters(i/s.tile.mr, t/wide, t%wide, first), &b.packed[j*b.panel(s)+t*n*nr], to, ld, 1, first+t > 0)
	}
}

// finish writes the results that tiles have not written.
func (b *shiftBlock) finish(s *shiftConv) {
	ld := len(b.ends) * s.tile.nr
	inPlace, done := s.outputs/s.tile.mr*s.tile.mr, b.whole*s.tile.nr
	for k := b.low; k < b.high; k++ {
		row := b.sums[(k-b.low)*ld:][:b.places]
		if s.bias != nil {
			bias := s.bias[k]
			for i := range row {
				row[i] += bias
			}
		}
		if done > 0 && k < inPlace {
			b.store(s, offset(s.dst.place(k, b.lines[0].at, s.access.size), done, s.access.size), row[done:])
			continue
		}
		for _, r := range b.stores {
			l := &b.lines[r.line]
			b.storeLines(s, s.dst.place(k, l.at, s.access.size), row[l.place:][:r.lines*r.count], r.lines)
		}
	}
}

// storeLines writes lines from p on.
func (b *shiftBlock) storeLines(s *shiftConv, p device.Ptr, results []float32, lines int) {
	n, down := len(results)/lines, s.dst.stride[1]
	switch s.pair {
	case evenPhase:
		moveRows[float32](p, down, addressOf(results), n, lines, n)
	case oddPhase, oddPhaseOfMore:
		more := int(s.pair - oddPhase)
		interleave(lines, n, slice[float32](offset(p, -1, s.access.size), (lines-1)*down+2*n+more), down, results, more)
	default:
		b.store(s, p, results)
	}
}

func (b *shiftBlock) store(s *shiftConv, p device.Ptr, row []float32) {
	if n := len(row); s.columns.Step == 2 && s.dst.stride[2] == 2 && s.access.direct && toEverySecond != nil && n >= leastSeconds {
		toEverySecond(n, &slice[float32](p, 2*n-1)[0], &row[0])
		return
	}
	s.access.store(p, s.dst.stride[2], row)
}

// toEverySecond copies n elements, leastSeconds at least, to every second place of dst. What is between these is written as it is: it must belong
// to another phase of the same image, on which nobody works. It is nil where the processor has no instructions for it.
var toEverySecond func(n int, dst, src *float32)

// shiftsGo packs taps: for each offset, it copies chunks of n elements (16, 8 or 4) from src + offset to dst, from left to right; the next offset
// goes to nr elements further on. chunks are pairs of a place in src and one in dst.
func shiftsGo(dst *float32, nr int, src *float32, offsets, chunks []int, n int) {
	for t, at := range offsets {
		to, from := offsetElements(dst, t*nr), offsetElements(src, at)
		for i := 0; i < len(chunks); i += 2 {
			copy(elementsAt(offsetElements(to, chunks[i+1]), n), elementsAt(offsetElements(from, chunks[i]), n))
		}
	}
}
