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
			return gradients.ConvInput(o.grad, o.w, o.x.Shape(), s.conv())
		}},
		{"weight", func(o *operands, s shape) (*tensor.Tensor, error) {
			return gradients.ConvWeight(o.grad, o.x, o.w.Shape(), s.conv())
		}},
	}
}

// operands are of one shape and type.
type operands struct{ x, w, grad *tensor.Tensor }

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

// strided are the same operands with images that lie in memory as [N, H, W, C].
func (o *operands) strided() (p *operands, err error) {
	p = &operands{w: o.w.Retain()}
	if p.x, err = channelsLast(o.x); err == nil {
		p.grad, err = channelsLast(o.grad)
	}
	if err != nil {
		p.release()
	}
	return p, err
}

func channelsLast(t *tensor.Tensor) (*tensor.Tensor, error) {
	turned, err := t.Permute(0, 2, 3, 1)
	if err != nil {
		return nil, err
	}
	defer turned.Release()
	copied, err := turned.Contiguous()
	if err != nil {
		return nil, err
	}
	defer copied.Release()
	return copied.Permute(0, 3, 1, 2)
}

func (o *operands) release() {
	for _, t := range []*tensor.Tensor{o.x, o.w, o.grad} {
		t.Release()
	}
}
