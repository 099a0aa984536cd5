package cpu

import "sync"

// Convolutions of float32 with three results at most, from many channels, as gradients of images of three colours: packed taps would be
// used for so few rows that packing would cost more than multiplying, and most rows of tiles would be computed in vain. Lines of all
// channels are copied, with zeros where they are padded, and tiles read them there: the lines of an image lie one behind the other, so
// a tile may reach from one into the next, and over the columns between them, whose sums nobody reads.

const (
	fewOutputs = 3
	fewColumns = 32

	fewElements = 64 << 10 // about the copied elements of a block
)

// few3x32 computes three rows of 32 columns of a product:
//
//	c[r*ld + j] = sum over steps l of weights[3*l + r] * image[offsets[l] + j]
//
// There is one step at least. It is nil where the processor has no instructions for it.
var few3x32 func(steps int, weights, image *float32, offsets *int, c *float32, ld int)

// isFew reports whether s is for fewBlockJob.
func (s *shiftConv) isFew() bool {
	return few3x32 != nil && s.outputs <= fewOutputs && s.rows.AtStep == 1 && s.columns.AtStep == 1
}

// few computes what compute computes.
func (s *shiftConv) few() {
	s.width, s.pieces = s.columns.Size, 1
	if s.width > shiftPlaces {
		s.width = shiftPlaces
		s.pieces = panels(s.columns.Size, s.width)
	}
	line := s.channels * (s.width + s.columns.reach)
	s.lines = 1
	if s.pieces == 1 {
		s.lines = min(s.rows.Size, max(s.rows.reach+1, fewElements/line-s.rows.reach))
		s.lines = panels(s.rows.Size, panels(s.rows.Size, s.lines))
	}
	s.layout()
	s.fewFilters()
	s.split(panels(s.allLines(), s.lines), 1, (*fewBlockJob)(s))
}

// fewFilters packs the kernels: for each step, what three results multiply.
func (s *shiftConv) fewFilters() {
	k := &s.kernels
	s.filters = sized(s.filters, fewOutputs*s.steps)
	clear(s.filters)
	to := s.filters
	for c := range s.channels {
		for u := range s.rows.Taps {
			for v := range s.columns.Taps {
				s.access.load(to[:s.outputs], offset(k.ptr, c*k.channel+u*k.down+v*k.across, s.access.size), k.row)
				to = to[fewOutputs:]
			}
		}
	}
}

// fewBlockJob computes blocks of lines.
type fewBlockJob shiftConv

func (j *fewBlockJob) run(lo, hi int) {
	s := (*shiftConv)(j)
	b, _ := fewBlocks.Get().(*fewBlock)
	if b == nil {
		b = new(fewBlock)
	}
	defer fewBlocks.Put(b)
	for ; lo < hi; lo++ {
		b.plan(s, lo*s.lines, min(s.lines, s.allLines()-lo*s.lines))
		b.compute(s)
		b.finish(s)
	}
}

// fewBlock is a block of lines in a worker's work.
type fewBlock struct{ shiftBlock }

var fewBlocks sync.Pool

// compute computes the sums of all places of copies that a line of results begins with, or that lie between lines.
func (b *fewBlock) compute(s *shiftConv) {
	b.copied = sized(b.copied, s.channels*b.size+fewColumns)
	clear(b.copied)
	b.offsets = b.offsets[:0]
	for c := range s.channels {
		b.copy(s, b.copied[c*b.size:], c)
		for _, at := range s.offsets {
			b.offsets = append(b.offsets, c*b.size+at)
		}
	}
	b.sums = sized(b.sums, fewOutputs*b.ld())
	for i := 0; i < len(b.lines); {
		at := b.lines[i].from
		for end := at; i < len(b.lines) && b.lines[i].from-end <= s.columns.reach; i++ {
			for end = b.lines[i].from + b.lines[i].count; at < end; at += fewColumns {
				few3x32(s.steps, &s.filters[0], &b.copied[at], &b.offsets[0], &b.sums[at], b.ld())
			}
		}
	}
}

func (b *fewBlock) ld() int { return b.size + fewColumns }

// finish writes the results.
func (b *fewBlock) finish(s *shiftConv) {
	for k := range s.outputs {
		for i := range b.lines {
			l := &b.lines[i]
			row := b.sums[k*b.ld()+l.from:][:l.count]
			if s.bias != nil {
				bias := s.bias[k]
				for i := range row {
					row[i] += bias
				}
			}
			b.store(s, s.dst.place(k, l.at, s.access.size), row)
		}
	}
}
