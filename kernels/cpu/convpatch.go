package cpu

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// grid is a range of places in three dimensions, counted through: images, rows, columns.
type grid [3]int

func (g *grid) len() int { return g[0] * g[1] * g[2] }

// at is place p.
func (g *grid) at(p int) [3]int {
	i := p / g[2]
	return [3]int{i / g[1], i % g[1], p - i*g[2]}
}

// nextRow moves to the start of the next row.
func (g *grid) nextRow(at *[3]int) {
	at[2] = 0
	if at[1]++; at[1] == g[1] {
		at[1] = 0
		at[0]++
	}
}

// patch reads what a convolution multiplies with the elements of its kernel: for each tap, and each place of a grid of
// results, an element of the image, or 0 where that lies outside.
type patch[T float] struct {
	access        accessor[T]
	ptr           device.Ptr
	image         int // distances in elements: of images, channels, rows and columns
	channel       int
	row, column   int
	rows, columns int // of the image
	axis          [2]op.Axis
	grid          grid
}

// patchOf reads channels from first on of an image.
func patchOf[T float](l accessor[T], v *op.View, first int, axes [2]op.Axis) patch[T] {
	g := patch[T]{
		access: l, ptr: offset(v.Ptr, first*v.Strides[1], l.size), image: v.Strides[0], channel: v.Strides[1], row: v.Strides[2],
		column: v.Strides[3], rows: v.Shape[2], columns: v.Shape[3], axis: axes, grid: grid{v.Shape[0], axes[0].Size, axes[1].Size},
	}
	if g.plain() {
		g.columns *= g.rows
		g.rows = 1
		g.axis[1].Size, g.axis[0].Size = g.columns, 1
		g.grid[1], g.grid[2] = 1, g.columns
	}
	return g
}

// plain reports whether there is one tap that reads the image as it is, in one piece, as in a convolution of 1 by 1.
func (g *patch[T]) plain() bool {
	h, w := &g.axis[0], &g.axis[1]
	return h.Taps == 1 && w.Taps == 1 && h.At0 == 0 && w.At0 == 0 && h.AtStep == 1 && w.AtStep == 1 &&
		h.Size == g.rows && w.Size == g.columns && g.row == g.column*g.columns
}

// read sets dst to what tap (u, v) of a channel meets at len(dst) places from at on.
func (g *patch[T]) read(dst []T, channel, u, v int, at [3]int) {
	y0 := g.axis[0].At0 + u*g.axis[0].AtTap
	x0 := g.axis[1].At0 + v*g.axis[1].AtTap
	for len(dst) > 0 {
		n := min(len(dst), g.grid[2]-at[2])
		g.line(dst[:n], at[0]*g.image+channel*g.channel, y0+at[1]*g.axis[0].AtStep, x0+at[2]*g.axis[1].AtStep)
		dst = dst[n:]
		g.grid.nextRow(&at)
	}
}

// line reads from row y of a plane the columns x, x+AtStep, ...
func (g *patch[T]) line(dst []T, plane, y, x int) {
	if y < 0 || y >= g.rows || x >= g.columns {
		clear(dst)
		return
	}
	step, lo := g.axis[1].AtStep, 0
	if x < 0 {
		lo = min((-x+step-1)/step, len(dst))
		clear(dst[:lo])
	}
	hi := min(len(dst), (g.columns-1-x)/step+1)
	if hi < len(dst) {
		clear(dst[max(lo, hi):])
	}
	if lo >= hi {
		return
	}
	from := offset(g.ptr, plane+y*g.row+(x+lo*step)*g.column, g.access.size)
	if step *= g.column; step == 1 && g.access.direct {
		copy(dst[lo:hi], slice[T](from, hi-lo))
	} else {
		g.access.load(dst[lo:hi], from, step)
	}
}

// target is where results go: the grid, and the distances of its dimensions and of the rows of the product.
type target struct {
	ptr    device.Ptr
	row    int
	grid   grid
	stride [3]int
}

// joined makes one dimension of those that lie straight in memory.
func (t target) joined() target {
	if t.grid[1] == 1 || t.stride[1] == t.grid[2]*t.stride[2] {
		t.grid[2] *= t.grid[1]
		t.grid[1] = 1
		if t.grid[0] == 1 || t.stride[0] == t.grid[2]*t.stride[2] {
			t.grid[2] *= t.grid[0]
			t.grid[0] = 1
		}
	}
	return t
}

// straight reports whether the rows of a product's result lie in memory in runs of grid[2] elements.
func (t *target) straight() bool {
	return t.grid[1] == 1 && (t.stride[2] == 1 || t.grid[2] == 1) && t.row >= 0
}

// place is the address of a place in a row.
func (t *target) place(row int, at [3]int, size int) device.Ptr {
	return offset(t.ptr, row*t.row+at[0]*t.stride[0]+at[1]*t.stride[1]+at[2]*t.stride[2], size)
}
