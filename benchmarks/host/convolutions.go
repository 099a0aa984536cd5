package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// convCases are convolutions as ResNets have them, forward and with each of the gradients. Figures are of a call.
func convCases() []workload {
	var list []workload
	for _, c := range []struct{ batch, in, size, out, kernel, stride, padding, groups int }{
		{8, 64, 32, 64, 3, 1, 1, 1}, {8, 128, 16, 128, 3, 1, 1, 1}, {8, 256, 8, 256, 3, 1, 1, 1}, {8, 512, 4, 512, 3, 1, 1, 1},
		{8, 64, 32, 128, 3, 2, 1, 1}, {8, 256, 8, 512, 3, 2, 1, 1}, {8, 64, 32, 128, 1, 2, 0, 1},
		{8, 3, 32, 64, 3, 1, 1, 1}, {2, 3, 112, 64, 7, 2, 3, 1},
		{8, 256, 16, 64, 1, 1, 0, 1}, {8, 64, 16, 256, 1, 1, 0, 1}, {8, 128, 16, 128, 3, 1, 1, 128}, {8, 32, 28, 64, 5, 1, 2, 1},
	} {
		name := fmt.Sprintf("conv %dx%dx%dx%d to %d by %d stride %d padding %d groups %d", c.batch, c.in, c.size, c.size, c.out, c.kernel, c.stride, c.padding, c.groups)
		result := (c.size+2*c.padding-c.kernel)/c.stride + 1
		conv := tensor.Conv{Stride: []int{c.stride}, Padding: []int{c.padding}, Groups: c.groups}
		of := shapes{{c.batch, c.in, c.size, c.size}, {c.out, c.in / c.groups, c.kernel, c.kernel}, {c.batch, c.out, result, result}}
		list = append(list,
			shaped(name, 0, of, func(x []*tensor.Tensor) error { return discard(tensor.Conv2d(x[0], x[1], nil, conv)) }),
			shaped(name+", input gradient", 0, of,
				func(x []*tensor.Tensor) error { return discard(gradients.ConvInput(x[2], x[1], x[0].Shape(), conv)) }),
			shaped(name+", weight gradient", 0, of,
				func(x []*tensor.Tensor) error { return discard(gradients.ConvWeight(x[2], x[0], x[1].Shape(), conv)) }))
	}
	return list
}

// attentionCases are attention of many queries, and of the one that decoding has.
func attentionCases() []workload {
	var list []workload
	for _, c := range []struct{ batch, heads, queries, keys, size int }{
		{1, 12, 1, 1024, 64}, {8, 12, 1, 256, 64}, {1, 12, 8, 1024, 64}, {4, 8, 128, 128, 32}, {1, 12, 512, 512, 64},
	} {
		keys := []int{c.batch, c.heads, c.keys, c.size}
		list = append(list, shaped(fmt.Sprintf("attention %dx%dx%dx%d of %d", c.batch, c.heads, c.queries, c.size, c.keys), 0,
			shapes{{c.batch, c.heads, c.queries, c.size}, keys, keys},
			func(x []*tensor.Tensor) error {
				return discard(tensor.ScaledDotProductAttention(x[0], x[1], x[2], tensor.Attention{}))
			}))
	}
	return list
}
