package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// Convolutions of one tap, of float32 images that are read whole and as they lie, are products of a small matrix with each image's channels by places: multiplyFlat reads
// these where they lie.

const pointOutputs = 256 // at most: a slice of their kernels stays in the second-level cache

// isPoint reports whether a convolution is such products, where each image's places lie straight in the result.
func (g *convGemm[T]) isPoint(a *[2]op.Axis) bool {
	p, x := &g.image, &g.image.axis[1]
	joined := p.rows == 1 && p.grid[1] == 1 && p.grid[2] == p.columns && p.axis[0].Taps == 1 && x.Taps == 1 && x.At0 == 0 && x.AtStep == 1 // see patchOf
	straight := g.dst.stride[2] == 1 && (a[0].Size == 1 || g.dst.stride[1] == a[1].Size)
	return len(smallKernels) > 0 && isSingle(&g.access) && straight && joined && p.column == 1 &&
		g.m >= smallKernels[0].rows && g.m <= pointOutputs && p.columns >= smallKernels[0].columns && g.k > 0
}

// pointed computes what over computes.
func (g *convGemm[T]) pointed() {
	j := flatJobs.Get().(*flatJob)
	k := &g.kernels
	j.product = product[float32]{m: g.m, n: g.image.columns, k: g.k, alpha: 1, dst: matrix{g.dst.ptr, g.dst.row, 1},
		a: matrix{k.ptr, k.row, k.channel}, b: matrix{g.image.ptr, g.image.channel, 1}}
	if g.bias != nil {
		j.beta, j.c = 1, matrix{addressOf(g.bias), 1, 0}
	}
	j.number, j.nextB, j.nextDst = g.image.grid[0], g.image.image, g.dst.stride[0]
	j.multiply(g.serial)
}
