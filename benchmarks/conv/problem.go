package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// shape is that of a convolution: images [N, C, H, W], kernels [O, C/Groups, KH, KW].
type shape struct {
	N       int `json:"n"`
	C       int `json:"c"`
	H       int `json:"h"`
	W       int `json:"w"`
	O       int `json:"o"`
	KH      int `json:"kh"`
	KW      int `json:"kw"`
	Stride  int `json:"stride"`
	Padding int `json:"padding"`
	Groups  int `json:"groups"`
}

func (s shape) String() string {
	return fmt.Sprintf("%dx%dx%dx%d:%dx%dx%d:%d:%d:%d", s.N, s.C, s.H, s.W, s.O, s.KH, s.KW, s.Stride, s.Padding, s.Groups)
}

// result is the size of the result's images: 0 or less if the kernel is larger than they are.
func (s shape) result() (h, w int) {
	size := func(image, kernel int) int {
		if room := image + 2*s.Padding - kernel; room >= 0 {
			return room/s.Stride + 1
		}
		return 0
	}
	return size(s.H, s.KH), size(s.W, s.KW)
}

func (s shape) flops() float64 {
	h, w := s.result()
	return 2 * float64(s.N) * float64(s.O) * float64(h*w) * float64(s.C/s.Groups) * float64(s.KH*s.KW)
}

// conv are the arguments of the operation.
func (s shape) conv() tensor.Conv {
	return tensor.Conv{Stride: []int{s.Stride}, Padding: []int{s.Padding}, Groups: s.Groups}
}

// problem is what is computed: "forward", or the gradient of "input" or "weight".
type problem struct {
	shape
	Type string `json:"type"`
	Pass string `json:"pass"`
}

// pass is what is computed of the operands of a shape.
type pass struct {
	name string
	run  func(o *operands, s shape) (*tensor.Tensor, error)
}

// gradients are what programs call autograd for.
var gradients = tensor.Gradients(training.Key{})

// passes, as the script calls them too.
func passes() []pass {
	return []pass{
		{"forward", func(o *operands, s shape) (*tensor.Tensor, error) { return tensor.Conv2d(o.x, o.w, nil, s.conv()) }},
		{"input", func(o *operands, s shape) (*tensor.Tensor, error) {
			return gradients.In(o.format).ConvInput(o.grad, o.w, o.x.Shape(), s.conv())
		}},
		{"weight", func(o *operands, s shape) (*tensor.Tensor, error) {
			return gradients.In(o.format).ConvWeight(o.grad, o.x, o.w.Shape(), s.conv())
		}},
	}
}

// operands are of one shape and type, and in one memory format.
type operands struct {
	x, w, grad *tensor.Tensor
	format     tensor.MemoryFormat
}

func newOperands(e tensor.Exec, d tensor.DType, s shape) (o *operands, err error) {
	o = new(operands)
	defer func() {
		if err != nil {
			o.release()
		}
	}()
	if o.x, err = peer.Fill(e, d, 0, s.N, s.C, s.H, s.W); err != nil {
		return o, err
	}
	if o.w, err = peer.Fill(e, d, 1, s.O, s.C/s.Groups, s.KH, s.KW); err != nil {
		return o, err
	}
	h, w := s.result()
	o.grad, err = peer.Fill(e, d, 2, s.N, s.O, h, w)
	return o, err
}

// strided are the same operands, and gradients, with their channels last: images as [N, H, W, C] in memory, kernels as [O, KH, KW, C/Groups].
func (o *operands) strided() (p *operands, err error) {
	p = &operands{format: tensor.ChannelsLast}
	for _, t := range []struct {
		to   **tensor.Tensor
		from *tensor.Tensor
	}{{&p.x, o.x}, {&p.w, o.w}, {&p.grad, o.grad}} {
		if *t.to, err = t.from.ToMemoryFormat(p.format); err != nil {
			p.release()
			return p, err
		}
	}
	return p, nil
}

func (o *operands) release() {
	for _, t := range []*tensor.Tensor{o.x, o.w, o.grad} {
		t.Release()
	}
}
