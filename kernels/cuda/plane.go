package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Operations on images plane by plane: pooling (src/pool.cu) and resampling (src/sample.cu). Each has a thread for every element
// of its output.

func planeRows() []op.Row {
	var rows []op.Row
	for _, id := range []op.ID{op.MaxPool2D, op.MaxPool2DGrad} {
		rows = append(rows, typedRow(id, func(d dtype.DType) op.Func { return maxPool(id, d) }))
	}
	for _, id := range []op.ID{op.AvgPool2D, op.AvgPool2DGrad} {
		rows = append(rows, typedRow(id, func(d dtype.DType) op.Func {
			return planewise(named("pool", id.String()+"_"+suffixes[d]), d, addPool)
		}))
	}
	for _, id := range []op.ID{op.UpsampleNearest2D, op.UpsampleNearest2DGrad, op.UpsampleBilinear2D, op.UpsampleBilinear2DGrad} {
		rows = append(rows, typedRow(id, func(d dtype.DType) op.Func {
			return planewise(named("sample", id.String()+"_"+suffixes[d]), d, addSample)
		}))
	}
	return rows
}

// maxPool makes the Func of MaxPool2D or its gradient: the type of the numbers chooses the kernel.
func maxPool(id op.ID, d dtype.DType) op.Func {
	name := id.String() + "_" + suffixes[d]
	small, large := planewise(named("pool", name+"_u8"), d, addPool), planewise(named("pool", name+"_i32"), d, addPool)
	return func(c *op.Call) error {
		if numbersOf(c).DType == dtype.Uint8 {
			return small(c)
		}
		return large(c)
	}
}

// adaptive reports whether a call has adaptive windows.
func adaptive(c *op.Call) bool {
	switch c.Op {
	case op.MaxPool2D, op.MaxPool2DGrad, op.AvgPool2D, op.AvgPool2DGrad:
		return c.I[0] == 0
	}
	return false
}

// numbersOf is the view of MaxPool2D's numbers, or nil.
func numbersOf(c *op.Call) *op.View {
	switch c.Op {
	case op.MaxPool2D:
		return &c.Out[1]
	case op.MaxPool2DGrad:
		return &c.In[1]
	}
	return nil
}

// planewise makes the Func of an operation on planes. add appends its structure, which begins as all of them do.
func planewise(k *kernel, d dtype.DType, add func(p *device.Params, c *op.Call, d dtype.DType, image, result *op.View)) op.Func {
	return func(c *op.Call) error {
		dst := &c.Out[0]
		image, result := &c.In[0], dst
		switch c.Op {
		case op.MaxPool2DGrad, op.AvgPool2DGrad, op.UpsampleNearest2DGrad, op.UpsampleBilinear2DGrad:
			image, result = result, image
		}
		total := dst.Len()
		if total == 0 {
			return nil
		}
		// Where an adaptive window begins is a product of a place and a size, which the kernel divides by the other size, in 32 bits.
		most := 0 // of products of places and sizes, for adaptive windows
		for d := 2; d < 4 && adaptive(c); d++ {
			most = max(most, (image.Shape[d]+1)*(result.Shape[d]+1))
		}
		if max(total, most) >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%v and %v have too many elements", image.Shape[:4], result.Shape[:4])
		}
		t := takeTask()
		defer tasks.Put(t)
		add(&t.params, c, d, image, result)
		t.params.Ptr(dst.Ptr)
		if n := numbersOf(c); n != nil {
			t.params.Ptr(n.Ptr)
		}
		t.params.Ptr(c.In[0].Ptr)
		return t.launch(c, k, blocks(total, threads))
	}
}

// structure is a Pool or a Sample in the making, in half words.
type structure struct {
	halves [64]uint32 // a Pool has most: 28 for sizes, windows and the divisor, 24 for the strides of three planes
	n      int
}

// add appends half words; C aligns them by themselves.
func (s *structure) add(values ...uint32) { s.n += copy(s.halves[s.n:], values) }

// addWords adds words, which are aligned.
func (s *structure) addWords(words ...uint64) {
	s.n += s.n % 2 // C aligns 64-bit members: a half word may be left out
	for _, w := range words {
		s.add(uint32(w), uint32(w>>32))
	}
}

// addPlane adds a Plane.
func (s *structure) addPlane(v *op.View) {
	t := &v.Strides
	s.addWords(uint64(t[0]), uint64(t[1]), uint64(t[2]), uint64(t[3]))
}

// begin adds what the structures begin with: total and a flag, the divisions, and the sizes.
func (s *structure) begin(c *op.Call, flag bool, image, result *op.View) {
	dst, word := &c.Out[0], uint32(0)
	if flag {
		word = 1
	}
	s.add(uint32(dst.Len()), word)
	for d := 3; d > 0; d-- {
		v := divisor(dst.Shape[d])
		s.add(v[:]...)
	}
	s.add(uint32(image.Shape[2]), uint32(image.Shape[3]), uint32(result.Shape[2]), uint32(result.Shape[3]))
}

// end appends the structure.
func (s *structure) end(p *device.Params) {
	var w [32]uint64
	for i := range w {
		w[i] = pair(s.halves[2*i], s.halves[2*i+1])
	}
	p.Words(w[:(s.n+1)/2]...)
}

// addPool appends a Pool.
func addPool(p *device.Params, c *op.Call, _ dtype.DType, image, result *op.View) {
	var s structure
	s.begin(c, adaptive(c), image, result)
	for _, v := range c.I[:6] {
		s.add(uint32(v))
	}
	number := numbersOf(c)
	if number != nil {
		s.add(uint32(c.I[6]), uint32(c.I[7]), 0, 0)
		s.addWords(0)
	} else {
		number = result
		divided := uint32(0)
		if c.I[7] != 0 && c.I[0] != 0 {
			divided = 1
		}
		s.add(1, 1, uint32(c.I[6]), divided) // there is no dilation
		s.addWords(uint64(c.I[7]))
	}
	s.addPlane(image)
	s.addPlane(result)
	s.addPlane(number)
	s.end(p)
}

// addSample appends a Sample.
func addSample(p *device.Params, c *op.Call, d dtype.DType, image, result *op.View) {
	var s structure
	s.begin(c, c.I[0] != 0, image, result)
	s.addPlane(image)
	s.addPlane(result)
	if d == dtype.Float64 {
		s.addWords(math.Float64bits(c.F[0]), math.Float64bits(c.F[1]))
	} else {
		s.add(math.Float32bits(float32(c.F[0])), math.Float32bits(float32(c.F[1])))
	}
	s.end(p)
}
