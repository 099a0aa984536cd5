package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	padSequence   = composite{name: "pad_sequence"}
	unpadSequence = composite{name: "unpad_sequence"}
)

// PadSequence joins sequences of different lengths to one batch, as long as the longest of them (torch.nn.utils.rnn.pad_sequence): vs are [L, ...], alike but for
// L, and the result is [T, B, ...], or with batchFirst [B, T, ...]. What is behind the end of a sequence is value, which integers take as
// tensor.Full does, but for negative numbers, which uint8 does not take. The result has the type of the first one, to which the
// others are converted. PyTorch's defaults are false and 0. RNNLayer.ForwardLengths of package nn takes such a batch, and the lengths.
func PadSequence(vs []*Variable, batchFirst bool, value float64) *Variable {
	c := padSequence
	return c.run(vs, func() error {
		for i, v := range vs {
			if v.NDim() == 0 {
				return c.shapes(fmt.Sprintf("sequence %d has no dimension", i), vs...)
			}
			if !slices.Equal(v.Shape()[1:], vs[0].Shape()[1:]) {
				return c.shapes(fmt.Sprintf("sequence %d is %v, and the first %v: all but their lengths must be the same", i, v.Shape(), vs[0].Shape()), vs...)
			}
		}
		return nil
	}, func(in []*Variable) *Variable {
		longest := 0
		for _, v := range in {
			longest = max(longest, v.Dim(0))
		}
		padded := make([]*Variable, len(in))
		for i, v := range in {
			if v.dtype != in[0].dtype {
				v = v.To(in[0].dtype)
			}
			if n := longest - v.Dim(0); n > 0 {
				pad := make([]int, 2*v.NDim()) // the last dimension is first
				pad[len(pad)-1] = n
				v = v.Pad(pad, tensor.PadConstant, value)
			}
			padded[i] = v
		}
		return Stack(padded, sequenceDim(batchFirst))
	})
}

// UnpadSequence are the sequences of a batch as PadSequence makes it, without what is behind their ends (torch.nn.utils.rnn.unpad_sequence): views of v, as many as there are
// lengths, which are 0 to T. What is left out has a gradient of 0.
func UnpadSequence(v *Variable, lengths []int, batchFirst bool) []*Variable {
	c, dim := unpadSequence, sequenceDim(batchFirst)
	return c.runs(len(lengths), []*Variable{v}, func() error {
		if v.NDim() < 2 {
			return c.shapes("a batch of sequences has two dimensions or more", v)
		}
		if n := v.Dim(dim); n != len(lengths) {
			return c.values("%d lengths for a batch of %d sequences", len(lengths), n)
		}
		for i, n := range lengths {
			if n < 0 || n > v.Dim(1-dim) {
				return c.values("the length of sequence %d is %d; it must be in 0..%d", i, n, v.Dim(1-dim))
			}
		}
		return nil
	}, func(in []*Variable) []*Variable {
		parts := make([]*Variable, len(lengths))
		for i, n := range lengths {
			parts[i] = in[0].Select(dim, i).Narrow(0, 0, n)
		}
		return parts
	})
}

// sequenceDim is the dimension of a batch that counts its sequences.
func sequenceDim(batchFirst bool) int {
	if batchFirst {
		return 0
	}
	return 1
}
