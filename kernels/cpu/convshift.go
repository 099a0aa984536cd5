package cpu

import (
	"runtime"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Convolutions of float32 as products whose right operand, the image as (channel, tap) by places, is packed by shifts. For some lines of
// results, a channel is copied once into the first-level cache, with zeros where it is padded, and columns that lie a stride apart side
// by side: what each tap meets are then the same runs of elements, a tap's distance further on. So there are no borders and no strides where
// elements are copied k times, and no fragments of less than a vector (a run may be copied too far: the next one mends it).
//
//	pack the kernels in panels of 8 outputs                             in parallel over panels
//	for each block of lines                                             in parallel
//	    for some channels at a time: copy the lines' rows, pack all taps of all places, multiply
//	    write results

const (
	shiftPlaces  = 256     // about the results of a block, for each output
	shiftLeast   = 64      // the fewest results and outputs for which processors share what could be one block
	shiftSteps   = 256     // about the steps that are packed together: a panel of them stays in the first-level cache
	shiftFilters = 1 << 16 // elements of kernels that stay in the second-level cache beside the panels
	shiftMost    = 64      // the largest step and the largest reach of taps: beyond, copies are mostly gaps
)

// shiftConv is one convolution in work, for one group and phase.
type shiftConv struct {
	access       accessor[float32]
	tile         *microkernel[float32]
	image        patch[float32]
	kernels      taps
	turned       phaseTaps
	pair         phasePair
	dst          target
	outputs      int
	channels     int
	steps        int // of a sum: channels and taps
	bias         []float32
	serial       bool
	rows         shiftAxis
	columns      shiftAxis
	width        int   // results of a line, at most: rows of more results are cut
	pieces       int   // lines of a row
	lines        int   // of a block
	parts, part  int   // of a block's outputs, and how many outputs are one
	offsets      []int // of each tap, in the copy of a channel
	group        int   // channels that are packed together
	filters      []float32
	plane, depth int // elements of a segment of a copy; rows of one phase
}

// shiftAxis is a dimension of a copy: places that lie a stride apart side by side, for each phase of the stride.
type shiftAxis struct {
	op.Axis
	low   int // the first place that a tap of result 0 reads
	reach int // places beyond the last result's that are read
}

func shiftAxisOf(a op.Axis) shiftAxis {
	s := shiftAxis{Axis: a, low: a.At0 + min(0, (a.Taps-1)*a.AtTap)}
	s.reach = max(a.AtTap, -a.AtTap) * (a.Taps - 1) / a.AtStep
	return s
}

// tap is the phase, and the number of places in it, that tap t of result 0 reads.
func (s *shiftAxis) tap(t int) (phase, shift int) {
	at := s.At0 + t*s.AtTap - s.low
	return at % s.AtStep, at / s.AtStep
}

// meets reports whether a tap reads places of a phase. Where the stride is greater than the kernel, some are read by none.
func (s *shiftAxis) meets(phase int) bool {
	for t := range s.Taps {
		if p, _ := s.tap(t); p == phase {
			return true
		}
	}
	return false
}

// isShifted reports whether a shiftConv is the way to compute channels times taps for a number of outputs.
func isShifted(axes *[2]op.Axis, channels int) bool {
	for i := range axes {
		a := &axes[i]
		if a.Taps < 1 || a.Size < 1 || a.AtStep > shiftMost || max(a.AtTap, -a.AtTap)*(a.Taps-1) > shiftMost {
			return false
		}
	}
	return axes[0].Taps*axes[1].Taps*channels >= 8
}

// isRich reports whether the gradient of an image of few channels is a sum over many: a product then, though most rows of its panels are
// not used, is less work than adding line by line.
func isRich(id op.ID, v *op.Convolution) bool {
	return id == op.Conv2DGradInput && v.Groups == 1 && v.Outputs >= 32
}

var shiftConvs = sync.Pool{New: func() any { return new(shiftConv) }}

// shifted computes what over computes.
func (g *convGemm[T]) shifted(axes *[2]op.Axis, channels int) {
	s := shiftConvs.Get().(*shiftConv)
	s.access, s.image = any(g.access).(accessor[float32]), any(g.image).(patch[float32])
	s.kernels, s.dst, s.outputs, s.channels, s.steps, s.serial = g.kernels, g.dst, g.m, channels, g.k, g.serial
	s.bias, s.pair = any(g.bias).([]float32), g.pair
	if g.turned != nil {
		s.turned = g.turned.phase(axes)
	}
	s.rows, s.columns = shiftAxisOf(axes[0]), shiftAxisOf(axes[1])
	if s.isFew() {
		s.few()
	} else {
		s.compute()
	}
	s.bias, s.turned.of = nil, nil
	shiftConvs.Put(s)
}

func (s *shiftConv) compute() {
	s.width = min(shiftPlaces, s.columns.Size)
	s.pieces = panels(s.columns.Size, s.width)
	s.lines = s.fit(max(1, shiftPlaces/s.width))
	s.share()
	s.tile = winogradLoops.choose(min(s.lines*s.width, s.dst.grid.len()))
	s.cut()
	s.layout()
	s.group = min(s.channels, max(1, shiftSteps/len(s.offsets)))
	if s.turned.of == nil {
		s.filters = sized(s.filters, panels(s.outputs, s.tile.mr)*s.tile.mr*s.steps)
		s.split(panels(s.outputs, s.tile.mr), max(1, 1024/s.steps), (*shiftFilterJob)(s))
	}
	s.split(panels(s.allLines(), s.lines)*s.parts, 1, (*shiftBlockJob)(s))
}

// fit is the number of lines, most or up to a half more or less, whose results fill panels best.
func (s *shiftConv) fit(most int) int {
	best, nr := most, winogradLoops.wide.nr
	waste := func(n int) float64 { return float64(panels(n*s.width, nr)*nr) / float64(n*s.width) }
	for n := most + most/2; 2*n > most; n-- {
		if waste(n) < waste(best)-0.04 { // blocks that end where images end copy less
			best = n
		}
	}
	return best
}

// share makes blocks smaller where processors would be without one. Each block reads all kernels.
func (s *shiftConv) share() {
	workers, all := runtime.GOMAXPROCS(0), s.allLines()
	if blocks := panels(all, s.lines); !s.serial && blocks < 2*workers && blocks%workers > 0 {
		s.lines = min(s.lines, max(panels(all, panels(blocks, workers)*workers), panels(shiftLeast, s.width)))
	}
}

// cut cuts the outputs into parts where processors are without a block even so. Each part packs the image for itself.
func (s *shiftConv) cut() {
	s.parts, s.part = 1, s.outputs
	workers, blocks := runtime.GOMAXPROCS(0), panels(s.allLines(), s.lines)
	if !s.serial && blocks < workers {
		s.part = panels(max(panels(s.outputs, panels(workers, blocks)), shiftLeast), s.tile.mr) * s.tile.mr
		s.parts = panels(s.outputs, s.part)
	}
}

func (s *shiftConv) split(n, grain int, j job) {
	if s.serial {
		j.run(0, n)
		return
	}
	split(n, grain, j)
}

func (s *shiftConv) allLines() int { return s.dst.grid[0] * s.rows.Size * s.pieces }

// layout computes what is the same for all blocks: the copy of a channel is, for each segment of lines that lie in one image, [phase
// of rows][row][phase of columns][column].
func (s *shiftConv) layout() {
	s.depth = s.rows.reach + 1
	if s.pieces == 1 {
		s.depth = s.rows.reach + min(s.lines, s.rows.Size)
	}
	s.plane = s.rows.AtStep * s.depth * s.rowSize()
	s.offsets = s.offsets[:0]
	for u := range s.rows.Taps {
		phase, down := s.rows.tap(u)
		for v := range s.columns.Taps {
			side, across := s.columns.tap(v)
			s.offsets = append(s.offsets, (phase*s.depth+down)*s.rowSize()+side*s.lineSize()+across)
		}
	}
}

// lineSize is the elements of a phase of a row in a copy, rowSize those of all phases.
func (s *shiftConv) lineSize() int { return s.width + s.columns.reach }
func (s *shiftConv) rowSize() int  { return s.columns.AtStep * s.lineSize() }

// shiftFilterJob packs panels of the kernel.
type shiftFilterJob shiftConv

func (j *shiftFilterJob) run(lo, hi int) {
	s := (*shiftConv)(j)
	k, mr := &s.kernels, s.tile.mr
	high, wide := s.rows.Taps, s.columns.Taps
	inOrder := s.access.direct && (wide == 1 || k.across == 1) && (high == 1 || k.down == wide)
	channels := 1 // that are packed together: all, or one for all panels, so that kernels are read about as they lie
	if inOrder && k.channel == high*wide {
		channels = s.channels
	}
	for c := 0; c < s.channels; c += channels {
		for i := lo; i < hi; i++ {
			n := min(mr, s.outputs-i*mr)
			to := s.filters[i*mr*s.steps+c*high*wide*mr:][:channels*high*wide*mr]
			at := offset(k.ptr, i*mr*k.row+c*k.channel, s.access.size)
			if channels > 1 || inOrder && high*wide >= 4 {
				packRows(to, matrix{at, k.row, 1}, n, mr, channels*high*wide, s.access.size, kernels32.pack.four)
			} else {
				s.packTaps(to, at, n)
			}
			clearBeyond(to, n, mr)
		}
	}
}

// packTaps packs the taps of a channel for n outputs.
func (s *shiftConv) packTaps(to []float32, at device.Ptr, n int) {
	k := &s.kernels
	for u := range s.rows.Taps {
		for v := range s.columns.Taps {
			s.loadColumn(to[:n], offset(at, u*k.down+v*k.across, s.access.size), k.row)
			to = to[s.tile.mr:]
		}
	}
}

// loadColumn reads a few elements that lie step apart: too few to call the accessor's loop for.
func (s *shiftConv) loadColumn(to []float32, from device.Ptr, step int) {
	if !s.access.direct || step < 1 {
		s.access.load(to, from, step)
		return
	}
	src := slice[float32](from, (len(to)-1)*step+1)
	for i := range to {
		to[i] = src[i*step]
	}
}

// shiftBlockJob computes parts of blocks of lines.
type shiftBlockJob shiftConv

func (j *shiftBlockJob) run(lo, hi int) {
	s := (*shiftConv)(j)
	b, _ := shiftBlocks.Get().(*shiftBlock)
	if b == nil {
		b = new(shiftBlock)
	}
	defer shiftBlocks.Put(b)
	b.isEmpty = false
	for ; lo < hi; lo++ {
		first, from := lo/s.parts*s.lines, lo%s.parts*s.part
		b.low, b.high = from, min(from+s.part, s.outputs)
		b.plan(s, first, min(s.lines, s.allLines()-first))
		b.chunk(s)
		b.compute(s)
		b.finish(s)
	}
}
