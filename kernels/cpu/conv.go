package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Conv2D, Conv2DGradInput and Conv2DGradWeight: from a call to products (convgemm.go), one for each group and phase, or to the
// loops of convdirect.go where a group has next to no channels. The transposed convolution is a convolution for each phase
// of its stride: op.Axis says how.

// convCall is one call in work. It is a job over groups.
type convCall[T float] struct {
	access  accessor[T]
	conv    op.Convolution
	call    *op.Call
	bias    []T
	serial  bool
	gemms   *sync.Pool
	columns *sync.Pool
}

// conv makes the Func of a convolution.
func conv[T float](l accessor[T]) op.Func {
	gemms := &sync.Pool{New: func() any { return newConvGemm(l) }}
	directs := &sync.Pool{New: func() any { return &directConv[T]{access: l, gemv: &matMulKernelsOf[T]().gemv} }}
	columns := &sync.Pool{New: func() any { return newColumnConv(l) }}
	pool := &sync.Pool{New: func() any { return &convCall[T]{access: l, gemms: gemms, columns: columns} }}
	tiled, tiles := any(l).(accessor[float32])
	return func(c *op.Call) error {
		if c.Out[0].Len() == 0 {
			return nil
		}
		j := pool.Get().(*convCall[T])
		j.call, j.conv = c, op.ConvolutionOf(c)
		j.readBias()
		switch v := &j.conv; {
		case isDirect(c.Op, v) && !(tiles && isRich(c.Op, v)):
			j.direct(directs)
		case tiles && isWinograd(v, c.Op) && !isExact(c):
			winogradCall(tiled, v, c.Op, any(j.bias).([]float32))
		default:
			j.serial = v.Groups > 1
			split(v.Groups, 1, j)
		}
		j.call, j.conv = nil, op.Convolution{}
		pool.Put(j)
		return nil
	}
}

// readBias sets bias to that of all channels, or to nil.
func (j *convCall[T]) readBias() {
	if j.call.Op == op.Conv2DGradWeight || len(j.call.In) < 3 {
		j.bias = nil
		return
	}
	v := &j.call.In[2]
	j.bias = sized(j.bias, v.Shape[0])
	j.access.load(j.bias, v.Ptr, v.Strides[0])
}

func (j *convCall[T]) run(lo, hi int) {
	g := j.gemms.Get().(*convGemm[T])
	defer j.gemms.Put(g)
	g.serial = j.serial
	for ; lo < hi; lo++ {
		switch j.call.Op {
		case op.Conv2D:
			j.forward(g, lo)
		case op.Conv2DGradInput:
			j.backward(g, lo)
		default:
			j.weight(g, lo)
		}
	}
	g.bias = nil
}

// forward computes the outputs of one group.
func (j *convCall[T]) forward(g *convGemm[T], group int) {
	v := &j.conv
	axes := [2]op.Axis{v.Forward(0), v.Forward(1)}
	k := v.Kernel.Strides
	j.over(g, axes, v.Image, group*v.Channels, v.Channels, v.Result, group*v.Outputs, v.Outputs,
		taps{offset(v.Kernel.Ptr, group*v.Outputs*k[0], j.access.size), k[0], k[1], k[2], k[3]})
}

// backward computes the gradient of one group's channels.
func (j *convCall[T]) backward(g *convGemm[T], group int) {
	v := &j.conv
	if j.access.direct && isColumns(v) {
		j.backwardByColumns(group)
		return
	}
	k := v.Kernel.Strides
	kernels := offset(v.Kernel.Ptr, group*v.Outputs*k[0], j.access.size)
	if _, single := any(j.access).(accessor[float32]); single && j.access.direct && isTurned(v) {
		g.turned = turnings.Get().(*turning)
		g.turned.turn(v, kernels, j.serial)
		defer func() {
			turnings.Put(g.turned)
			g.turned = nil
		}()
	}
	cleared := j.clearGaps(group)
	for y := range v.Phases(0) {
		for x := range v.Phases(1) {
			axes := [2]op.Axis{v.Backward(0, y), v.Backward(1, x)}
			if cleared && axes[0].Taps*axes[1].Taps == 0 {
				continue
			}
			g.pair = g.pairOf(v, axes[0], x)
			j.over(g, axes, v.Result, group*v.Outputs, v.Outputs, v.Image, group*v.Channels, v.Channels,
				taps{kernels, k[1], k[0], k[2], k[3]})
		}
	}
	g.pair = alone
}

// clearGaps sets a group's channels to 0 at once, where the stride steps over the kernel and channels lie in one piece.
func (j *convCall[T]) clearGaps(group int) bool {
	v := &j.conv
	s, w := v.Image.Strides, v.Image.Shape
	gaps := v.Stride[0] > v.Kernel.Shape[2] || v.Stride[1] > v.Kernel.Shape[3]
	if !gaps || j.bias != nil || s[3] != 1 || s[2] != w[3] || s[1] != w[2]*w[3] || !j.access.direct {
		return false
	}
	for n := range w[0] {
		clear(slice[T](offset(v.Image.Ptr, n*s[0]+group*v.Channels*s[1], j.access.size), v.Channels*s[1]))
	}
	return true
}

// over computes channels of dst, from to on, by a sum over channels of src from first on.
func (j *convCall[T]) over(g *convGemm[T], axes [2]op.Axis, src *op.View, first, channels int, dst *op.View, to, count int, k taps,
) {
	size := j.access.size
	h, w := &axes[0], &axes[1]
	k.ptr = offset(k.ptr, h.Tap0*k.down+w.Tap0*k.across, size)
	k.down *= h.TapStep
	k.across *= w.TapStep
	g.overPlaces, g.kernels = false, k
	g.image = patchOf(j.access, src, first, axes)
	g.m, g.n, g.k = count, g.image.grid.len(), channels*h.Taps*w.Taps
	g.dst = placesOf(dst, to, axes, size)
	g.bias = nil
	if j.bias != nil {
		g.bias = j.bias[to:]
	}
	_, single := any(g.access).(accessor[float32])
	joined := g.image.axis // one line of places for each image, if it is read as it is
	if straight := g.dst.stride[1] == w.Size*g.dst.stride[2]; single && !straight && joined != axes && isShifted(&axes, channels) {
		joined = axes
		g.image.axis, g.image.rows, g.image.columns = axes, src.Shape[2], src.Shape[3]
		g.image.grid = grid{src.Shape[0], h.Size, w.Size}
	}
	switch {
	case g.m == 0 || g.n == 0:
	case g.isPoint(&axes):
		g.pointed()
	case single && isShifted(&joined, channels):
		g.shifted(&joined, channels)
	default:
		g.multiply()
	}
}

// placesOf is where the results of axes go in an image, whose channel to is row 0.
func placesOf(dst *op.View, to int, axes [2]op.Axis, size int) target {
	h, w := &axes[0], &axes[1]
	s := dst.Strides
	return target{
		ptr: offset(dst.Ptr, to*s[1]+h.First*s[2]+w.First*s[3], size), row: s[1],
		grid: grid{dst.Shape[0], h.Size, w.Size}, stride: [3]int{s[0], h.Step * s[2], w.Step * s[3]},
	}
}

// weight computes the gradient of one group's kernels.
func (j *convCall[T]) weight(g *convGemm[T], group int) {
	v := &j.conv
	g.overPlaces, g.bias = true, nil
	axes := [2]op.Axis{v.Forward(0), v.Forward(1)}
	g.image = patchOf(j.access, v.Image, group*v.Channels, axes)
	g.gradient = patchOf(j.access, v.Result, group*v.Outputs, [2]op.Axis{
		{Size: axes[0].Size, Step: 1, Taps: 1, AtStep: 1}, {Size: axes[1].Size, Step: 1, Taps: 1, AtStep: 1},
	})
	high, wide := v.Kernel.Shape[2], v.Kernel.Shape[3]
	if _, single := any(g.access).(accessor[float32]); single && g.image.grid.len() > 0 && isCorrelated(v.Outputs, v.Channels, high*wide) {
		g.correlated(v, group)
		return
	}
	g.m, g.n, g.k = v.Outputs, v.Channels*high*wide, g.image.grid.len()
	s := v.Kernel.Strides
	g.dst = target{
		ptr: offset(v.Kernel.Ptr, group*v.Outputs*s[0], j.access.size), row: s[0],
		grid: grid{v.Channels, high, wide}, stride: [3]int{s[1], s[2], s[3]},
	}
	g.multiply()
}
