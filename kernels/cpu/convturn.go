package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The gradient of an image under a stride is a product for each phase of the stride. All of them read kernels across, some taps each: elements that
// lie far apart. So kernels of float32 are packed once with all their taps, before the phases, and a phase multiplies tap by tap.

// turning is kernels packed with all taps: [panel of channels][tap][output][channel]. It is a job over panels.
type turning struct {
	packed   []float32
	from     device.Ptr
	output   int // distance of the kernels of outputs
	outputs  int
	channels int
	taps     int // of a channel; they lie side by side, and so do the channels
	wide     int // taps of a row
	mr       int // channels of a panel
}

// phaseTaps are the taps of a phase in packed kernels: of is nil if they are not packed.
type phaseTaps struct {
	of                  *turning
	first, down, across int // numbers of taps
}

var turnings = sync.Pool{New: func() any { return new(turning) }}

// leastTurned is how many channels and taps are worth packing all together.
const leastTurned = 8

// isTurned reports whether the kernels of v are packed so for its gradient.
func isTurned(v *op.Convolution) bool {
	s, n := v.Kernel.Strides, v.Kernel.Shape
	taps := n[2] * n[3]
	return kernels32.pack.four != nil && winogradLoops.wide.mr == winogradLoops.narrow.mr &&
		v.Phases(0)*v.Phases(1) > 1 && v.Channels >= leastTurned && taps >= leastTurned && s[3] == 1 && s[2] == n[3] && s[1] == taps
}

// turn packs the kernels of a group.
func (t *turning) turn(v *op.Convolution, kernels device.Ptr, serial bool) {
	t.from, t.output, t.outputs, t.channels = kernels, v.Kernel.Strides[0], v.Outputs, v.Channels
	t.wide, t.mr = v.Kernel.Shape[3], winogradLoops.wide.mr
	t.taps = v.Kernel.Shape[2] * t.wide
	n := panels(t.channels, t.mr)
	t.packed = sized(t.packed, n*t.panel())
	if serial {
		t.run(0, n)
	} else {
		split(n, max(1, elementGrain/t.panel()), t)
	}
}

// panel is the elements of a panel, and tap those of a tap in it.
func (t *turning) panel() int { return t.taps * t.tap() }
func (t *turning) tap() int   { return t.outputs * t.mr }

func (t *turning) run(lo, hi int) {
	size := sizeOf(float32(0))
	for o := range t.outputs { // so that kernels are read about as they lie
		for i := lo; i < hi; i++ {
			n := min(t.mr, t.channels-i*t.mr)
			to := t.packed[i*t.panel()+o*t.mr:]
			packRows(to, matrix{offset(t.from, o*t.output+i*t.mr*t.taps, size), t.taps, 1}, n, t.tap(), t.taps, size, kernels32.pack.four)
		}
	}
}

// phase is the taps that the axes of a phase meet.
func (t *turning) phase(axes *[2]op.Axis) phaseTaps {
	h, w := &axes[0], &axes[1]
	return phaseTaps{t, h.Tap0*t.wide + w.Tap0, h.TapStep * t.wide, w.TapStep}
}

// filters are the elements of panel i that tap (u, v) of the phase has for outputs from first on.
func (p *phaseTaps) filters(i, u, v, first int) *float32 {
	tap := p.first + u*p.down + v*p.across
	return &p.of.packed[i*p.of.panel()+tap*p.of.tap()+first*p.of.mr]
}
