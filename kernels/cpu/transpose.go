package cpu

import "github.com/cistern-ml/cistern/device"

// Copies that exchange dimensions: elements lie side by side along one dimension of the input, and along another of the output. They go
// tile by tile, so that the lines of both that a tile touches stay in the cache until they are read, or written, to their ends.

const (
	crossTile = 64 // elements of a tile along either dimension
	crossRows = 8  // rows and columns of a block
)

// crossing is the part of a mover that exchanges dimensions. It is a job over tiles.
type crossing[T any] struct {
	loop    *loop
	across  int // the dimension along which the input's elements lie side by side; the output's lie so along the last one
	columns int // tiles along the last dimension
	tiles   int // of one plane
	rest    loop
}

// crosses sets c to l's copy, and reports whether it is one that exchanges dimensions.
func (c *crossing[T]) crosses(l *loop) bool {
	last := l.NDim - 1
	if l.Stride[0][last] != 1 || l.Stride[1][last] == 1 || l.inner() < crossRows {
		return false
	}
	for d := range last {
		if l.Stride[1][d] == 1 && l.Shape[d] >= crossRows {
			c.loop, c.across = l, d
			c.columns = panels(l.inner(), crossTile)
			c.tiles = c.columns * panels(l.Shape[d], crossTile)
			l.planes(d, &c.rest)
			return true
		}
	}
	return false
}

// planes sets to to the loop over the first elements of all planes, which have the last dimension and the one across.
func (l *loop) planes(across int, to *loop) {
	*to = loop{}
	to.N, to.Total = l.N, 1
	to.Ptr, to.Size = l.Ptr, l.Size
	for d := range l.NDim - 1 {
		if d == across {
			continue
		}
		n := to.NDim
		to.Shape[n] = l.Shape[d]
		for k := range l.N {
			to.Stride[k][n] = l.Stride[k][d]
		}
		to.Total *= l.Shape[d]
		to.NDim++
	}
	if to.NDim == 0 {
		to.NDim, to.Shape[0] = 1, 1
	}
}

// tileCount is the number of tiles of all planes.
func (c *crossing[T]) tileCount() int { return c.rest.Total * c.tiles }

func (c *crossing[T]) run(lo, hi int) {
	for lo < hi {
		var w walk
		w.seek(&c.rest, lo/c.tiles)
		end := min(hi, (lo/c.tiles+1)*c.tiles)
		for ; lo < end; lo++ {
			t := lo % c.tiles
			c.tile(&w, t/c.columns*crossTile, t%c.columns*crossTile)
		}
	}
}

// tile copies the tile of w's plane that begins at place y along across, and at place x along the last dimension.
func (c *crossing[T]) tile(w *walk, y, x int) {
	out, _ := w.at(0)
	in, _ := w.at(1)
	ld, step, size := c.loop.Stride[0][c.across], c.loop.Stride[1][c.loop.NDim-1], c.loop.Size[0]
	height, width := min(crossTile, c.loop.Shape[c.across]-y), min(crossTile, c.loop.inner()-x)
	crossCopy[T](offset(out, y*ld+x, size), ld, offset(in, x*step+y, size), step, height, width)
}

// crossCopy copies width columns, step apart, of height elements that lie side by side, to rows that are ld apart: blocks of crossRows rows and columns, and
// what is left beside and below them.
func crossCopy[T any](out device.Ptr, ld int, in device.Ptr, step, height, width int) {
	var e T
	size := sizeOf(e)
	down, right := height&^(crossRows-1), width&^(crossRows-1)
	if crowding(ld*size) >= crowding(step*size) {
		for y := 0; y < down; y += crossRows {
			crossBlocks[T](right/crossRows, offset(out, y*ld, size), ld, crossRows, offset(in, y, size), step, crossRows*step)
		}
	} else {
		for x := 0; x < right; x += crossRows {
			crossBlocks[T](down/crossRows, offset(out, x, size), ld, crossRows*ld, offset(in, x*step, size), step, crossRows)
		}
	}
	if down < height {
		crossGo[T](offset(out, down*ld, size), ld, offset(in, down, size), step, right, height-down)
	}
	crossGo[T](offset(out, right, size), ld, offset(in, right*step, size), step, width-right, height)
}

// crowding tells how few sets of a first-level cache hold lines that are so many bytes apart: all are in one if it is a multiple of 4 KiB, and
// then push each other out before they are read, or written, to their ends. A tile goes along the lines that are the more crowded.
func crowding(bytes int) int { return min(bytes&-bytes, 4<<10) }

// crossBlocks copies n blocks of crossRows rows of as many elements, step apart, to rows that are ld apart. The blocks are nextFrom, and
// nextTo, apart.
func crossBlocks[T any](n int, dst device.Ptr, ld, nextTo int, src device.Ptr, step, nextFrom int) {
	var e T
	size := sizeOf(e)
	if f := vector.transpose[sizeClass(size)]; f != nil && n > 0 {
		f(n, &slice[byte](dst, 1)[0], size*ld, size*nextTo, &slice[byte](src, 1)[0], size*step, size*nextFrom)
		return
	}
	if nextFrom == crossRows { // side by side
		crossGo[T](dst, ld, src, step, crossRows, n*crossRows)
		return
	}
	for range n {
		crossGo[T](dst, ld, src, step, crossRows, crossRows)
		dst, src = offset(dst, nextTo, size), offset(src, nextFrom, size)
	}
}

// crossGo copies rows of n elements that lie side by side, step apart, to n rows that are ld apart.
func crossGo[T any](dst device.Ptr, ld int, src device.Ptr, step, rows, n int) {
	var e T
	for ; rows >= 4; rows -= 4 {
		var row [4][]T
		for i := range row {
			row[i] = slice[T](offset(src, i*step, sizeOf(e)), n)
		}
		r0, r1, r2, r3 := row[0], row[1][:n], row[2][:n], row[3][:n]
		for y, v := range r0 {
			to := slice[T](offset(dst, y*ld, sizeOf(e)), 4)
			to[0], to[1], to[2], to[3] = v, r1[y], r2[y], r3[y]
		}
		dst, src = offset(dst, 4, sizeOf(e)), offset(src, 4*step, sizeOf(e))
	}
	for ; rows > 0; rows-- {
		for y, v := range slice[T](src, n) {
			slice[T](offset(dst, y*ld, sizeOf(e)), 1)[0] = v
		}
		dst, src = offset(dst, 1, sizeOf(e)), offset(src, step, sizeOf(e))
	}
}
