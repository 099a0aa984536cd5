package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// What puts elements elsewhere, without computing: views and copies of others, whose gradients put them back.

var (
	pixelShuffle   = composite{name: "pixel_shuffle"}
	pixelUnshuffle = composite{name: "pixel_unshuffle"}
	channelShuffle = composite{name: "channel_shuffle"}
	rot90          = composite{name: "rot90"}
	unflatten      = composite{name: "unflatten"}
	windowsOf      = composite{name: "unfold"}
	takeFlat       = composite{name: "take"}
	maskedScatter  = composite{name: "masked_scatter"}
	expandAs       = composite{name: "expand_as"}
	broadcastAll   = composite{name: "broadcast_tensors"}
	tensorSplit    = composite{name: "tensor_split"}
)

// PixelShuffle makes [..., C*r*r, H, W] to [..., C, H*r, W*r]: r*r channels become a square of r*r elements (sub-pixel convolution). Of tensor.ChannelsLast
// images the result is one, as those of the two functions below are.
func (v *Variable) PixelShuffle(r int) *Variable {
	return pixelShuffle.run([]*Variable{v}, func() error {
		if v.NDim() < 3 || r < 1 || r >= tooLarge || v.Dim(-3)%(r*r) != 0 {
			return pixelShuffle.shapes(fmt.Sprintf("images are [..., C*r*r, H, W], and r is %d", r), v)
		}
		return nil
	}, func(in []*Variable) *Variable {
		shape := v.Shape().Clone()
		n := len(shape)
		lead, c, h, w := shape[:n-3], shape[n-3]/(r*r), shape[n-2], shape[n-1]
		if v.MemoryFormat() == tensor.ChannelsLast {
			x := in[0].Permute(0, 2, 3, 1).Reshape(lead.Len(), h, w, c, r, r).Permute(0, 1, 4, 2, 5, 3)
			return x.copied().Reshape(lead.Len(), h*r, w*r, c).Permute(0, 3, 1, 2)
		}
		x := in[0].Reshape(lead.Len(), c, r, r, h, w).Permute(0, 1, 4, 2, 5, 3)
		return x.copied().Reshape(append(lead, c, h*r, w*r)...)
	})
}

// PixelUnshuffle undoes PixelShuffle: it makes [..., C, H*r, W*r] to [..., C*r*r, H, W].
func (v *Variable) PixelUnshuffle(r int) *Variable {
	return pixelUnshuffle.run([]*Variable{v}, func() error {
		if v.NDim() < 3 || r < 1 || r >= tooLarge || v.Dim(-2)%r != 0 || v.Dim(-1)%r != 0 {
			return pixelUnshuffle.shapes(fmt.Sprintf("images are [..., C, H*r, W*r], and r is %d", r), v)
		}
		return nil
	}, func(in []*Variable) *Variable {
		shape := v.Shape().Clone()
		n := len(shape)
		lead, c, h, w := shape[:n-3], shape[n-3], shape[n-2]/r, shape[n-1]/r
		if v.MemoryFormat() == tensor.ChannelsLast {
			x := in[0].Permute(0, 2, 3, 1).Reshape(lead.Len(), h, r, w, r, c).Permute(0, 1, 3, 5, 2, 4)
			return x.copied().Reshape(lead.Len(), h, w, c*r*r).Permute(0, 3, 1, 2)
		}
		x := in[0].Reshape(lead.Len(), c, h, r, w, r).Permute(0, 1, 3, 5, 2, 4)
		return x.copied().Reshape(append(lead, c*r*r, h, w)...)
	})
}

// ChannelShuffle takes the channels of [N, C, ...], which stand in groups, from the groups in turn.
func (v *Variable) ChannelShuffle(groups int) *Variable {
	return channelShuffle.run([]*Variable{v}, func() error {
		if v.NDim() < 3 || groups < 1 || v.Dim(1)%groups != 0 {
			return channelShuffle.shapes(fmt.Sprintf("images are [N, C, ...], whose channels are not %d groups", groups), v)
		}
		return nil
	}, func(in []*Variable) *Variable {
		n, c, rest := v.Dim(0), v.Dim(1), v.Shape()[2:].Len()
		if groups == 1 || groups == c { // nothing moves, and the result is no view of v all the same
			return in[0].copied()
		}
		if v.MemoryFormat() == tensor.ChannelsLast {
			h, w := v.Dim(2), v.Dim(3)
			return in[0].Permute(0, 2, 3, 1).Reshape(n, h, w, groups, c/groups).Transpose(3, 4).Reshape(n, h, w, c).Permute(0, 3, 1, 2)
		}
		return in[0].Reshape(n, groups, c/groups, rest).Transpose(1, 2).Reshape(v.Shape()...)
	})
}

// Rot90 turns v k times by 90 degrees in the plane of two dimensions, from the first towards the second; a negative k turns back. PyTorch's defaults are
// once, and dimensions 0 and 1.
func (v *Variable) Rot90(k, from, to int) *Variable {
	return rot90.run([]*Variable{v}, func() error {
		a, err := rot90.dim(v, from)
		b, err2 := rot90.dim(v, to)
		if err = firstError(err, err2); err == nil && (a == b || v.NDim() < 2) {
			err = rot90.shapes("a plane has two dimensions", v)
		}
		return err
	}, func(in []*Variable) *Variable {
		switch (k%4 + 4) % 4 {
		case 1:
			return in[0].Flip(to).Transpose(from, to)
		case 2:
			return in[0].Flip(from, to)
		case 3:
			return in[0].Flip(from).Transpose(from, to)
		}
		return in[0].copied()
	})
}

// Unflatten makes several dimensions of one; of one of the sizes -1 stands for what is left.
func (v *Variable) Unflatten(dim int, sizes ...int) *Variable {
	d := 0
	return unflatten.run([]*Variable{v}, func() (err error) {
		if d, err = unflatten.dim(v, dim); err == nil && (v.NDim() == 0 || len(sizes) == 0) {
			err = unflatten.shapes(fmt.Sprintf("dimension %d cannot become %v", dim, sizes), v)
		}
		product, left := 1, false
		for _, n := range sizes {
			if n == -1 && !left {
				left = true
			} else if product *= n; n < 0 || product >= tooLarge || product < 0 {
				return unflatten.shapes(fmt.Sprintf("dimension %d cannot become %v", dim, sizes), v)
			}
		}
		if n := v.Dim(d); err == nil && (!left && product != n || left && (product == 0 || n%product != 0)) {
			err = unflatten.shapes(fmt.Sprintf("dimension %d cannot become %v", dim, sizes), v)
		}
		return err
	}, func(in []*Variable) *Variable {
		sizes, product := slices.Clone(sizes), 1
		for _, n := range sizes {
			product *= max(n, -n)
		}
		for i, n := range sizes {
			if n == -1 { // by hand, because the tensor may have no elements
				sizes[i] = v.Dim(d) / product
			}
		}
		return in[0].Reshape(slices.Concat(v.Shape()[:d], sizes, v.Shape()[d+1:])...)
	})
}

// Windows are all pieces of size elements along dim, each step elements behind the one before (Tensor.unfold): dimension dim counts the pieces, whose
// elements are a new last dimension. They are copies, where PyTorch's are views.
func (v *Variable) Windows(dim, size, step int) *Variable {
	d := 0
	return windowsOf.run([]*Variable{v}, func() (err error) {
		if d, err = windowsOf.dim(v, dim); err == nil && (v.NDim() == 0 || size < 1 || size > v.Dim(d) || step < 1 || step >= tooLarge) {
			err = windowsOf.shapes(fmt.Sprintf("there are no pieces of %d elements, every %d, along dimension %d", size, step, dim), v)
		}
		return err
	}, func(in []*Variable) *Variable {
		x := in[0].slid(d, size, step, 1)
		return x.MoveDim(d, -1)
	})
}

// slid makes two dimensions of one: the elements of a window, size of them spread elements apart, and the places of the window, step apart.
func (v *Variable) slid(dim, size, step, spread int) *Variable {
	count := (v.Dim(dim)-spread*(size-1)-1)/step + 1
	at := v.g.places(size, spread, count, step)
	shape := slices.Concat(v.Shape()[:dim], []int{size, count}, v.Shape()[dim+1:])
	return v.IndexSelect(dim, at).Reshape(shape...)
}

// places are the indices of size elements, spread apart, of each of count windows, step apart: [size*count].
func (g *Graph) places(size, spread, count, step int) *Variable {
	first := g.Arange(0, float64(count), 1, tensor.Int64).MulScalar(float64(step))
	within := g.Arange(0, float64(size), 1, tensor.Int64).MulScalar(float64(spread))
	return within.Unsqueeze(1).Add(first).Reshape(size * count)
}

// TakeFlat is the elements of v, counted in row-major order, that index names, in index's shape (torch.take). Negative indices count from the end.
func (v *Variable) TakeFlat(index *Variable) *Variable {
	return takeFlat.run([]*Variable{v, index}, nil, func(in []*Variable) *Variable { return in[0].Reshape(v.Len()).Index(in[1]) })
}

// MaskedScatter is v with the elements of src, in their order, where mask, of type bool, is true; mask broadcasts to v. src has as many elements as
// are true, or more.
func (v *Variable) MaskedScatter(mask, src *Variable) *Variable {
	in := []*Variable{v, mask, src}
	return maskedScatter.run(in, func() error {
		if v.dtype != src.dtype || mask.dtype != tensor.Bool {
			return &tensor.DTypeError{Op: maskedScatter.name, DTypes: dtypesOf(in), Detail: "the mask is bool, and the others have one type"}
		}
		if shape, err := tensor.BroadcastShapes(v.Shape(), mask.Shape()); err != nil || !shape.Equal(v.Shape()) {
			return maskedScatter.shapes("the mask does not broadcast to the first", v, mask)
		}
		return nil
	}, func(in []*Variable) *Variable {
		if v.Len() == 0 {
			return in[0].copied()
		}
		where := in[1].Expand(v.Shape()...)
		flat := where.Reshape(v.Len())
		at := flat.CumSum(0).SubScalar(1).MaskedFill(flat.Not(), 0)
		from := in[2].Reshape(src.Len())
		if src.Len() == 0 { // good only if nothing is true
			from, at = in[0].Detach().Reshape(v.Len()).Narrow(0, 0, 1), at.Add(flat.To(tensor.Int64))
		}
		return Where(where, from.IndexSelect(0, at).Reshape(v.Shape()...), in[0])
	})
}

// ExpandAs repeats v to the shape of u.
func (v *Variable) ExpandAs(u *Variable) *Variable {
	return expandAs.run([]*Variable{v, u}, nil, func(in []*Variable) *Variable { return in[0].Expand(in[1].Shape()...) })
}

// BroadcastTensors repeats all to the shape that they broadcast to.
func BroadcastTensors(vs ...*Variable) []*Variable {
	return broadcastAll.runs(len(vs), slices.Clone(vs), func() error { return broadcastAll.broadcast(vs...) }, func(in []*Variable) []*Variable {
		shapes := make([]tensor.Shape, len(in))
		for i, v := range in {
			shapes[i] = v.Shape()
		}
		shape, _ := tensor.BroadcastShapes(shapes...) // it has gone well before
		all := make([]*Variable, len(in))
		for i, v := range in {
			all[i] = v.Expand(shape...)
		}
		return all
	})
}

// TensorSplit cuts v along dim into n pieces, of which the first have one element more than the others where n does not divide the dimension. The pieces
// share v's memory.
func (v *Variable) TensorSplit(n, dim int) []*Variable {
	if n < 1 || n > max(tooMany, min(v.along(dim), mostPieces)) {
		v.Graph().Refuse(tensorSplit.name, tensorSplit.values("%d pieces", n), v)
		return v.failed(unknown)
	}
	sizes, all := make([]int, n), v.along(dim)
	for i := range sizes {
		sizes[i] = all / n
		if i < all%n {
			sizes[i]++
		}
	}
	if v.Graph() == nil {
		return v.failed(n)
	}
	return v.Graph().named(tensorSplit.name, []*Variable{v}, func() []*Variable { return v.SplitSizes(sizes, dim) })
}

// TensorSplitAt cuts v along dim before each of the indices, which count from the end if they are negative and end at the dimension's: one piece more than
// there are indices. The pieces share v's memory.
func (v *Variable) TensorSplitAt(indices []int, dim int) []*Variable {
	if v.Graph() == nil {
		return make([]*Variable, len(indices)+1)
	}
	return v.Graph().named(tensorSplit.name, []*Variable{v}, func() []*Variable {
		vs, from, n := make([]*Variable, len(indices)+1), 0, v.along(dim)
		for i := range vs {
			to := n
			if i < len(indices) {
				if to = indices[i]; to < 0 {
					to += n
				}
				to = min(max(to, 0), n)
			}
			vs[i] = v.Narrow(dim, min(from, n), max(to-from, 0))
			from = to
		}
		return vs
	})
}
