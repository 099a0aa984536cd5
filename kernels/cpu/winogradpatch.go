package cpu

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// winogradPatches are where tiles read: patches of size x size elements, step apart, in planes of an image, which begin at (top, left) and
// reach over the borders.
type winogradPatches struct {
	access         accessor[float32]
	ptr            device.Ptr
	image, channel int // distances in elements
	row, column    int
	rows, columns  int // of the image
	top, left      int
	size, step     int
	grid           grid // of tiles
}

// patchesOf are the patches of channels from first on, for a number of results down and across, in tiles of step x step; begin is where the
// first patch begins.
func patchesOf(l accessor[float32], v *op.View, first int, results, begin [2]int, size, step int) winogradPatches {
	s := v.Strides
	return winogradPatches{
		access: l, ptr: offset(v.Ptr, first*s[1], l.size), image: s[0], channel: s[1], row: s[2], column: s[3],
		rows: v.Shape[2], columns: v.Shape[3], top: begin[0], left: begin[1], size: size, step: step,
		grid: grid{v.Shape[0], panels(results[0], step), panels(results[1], step)},
	}
}

// patchPlan says how patches of one channel are copied into memory where each is whole, with zeros outside of the image: runs of
// elements, which are at the same places for all channels.
type patchPlan struct {
	at   []int // where each tile's patch begins
	row  int   // distance of rows
	runs []patchRun
	size int // elements of memory
}

type patchRun struct{ to, from, n int }

// behindRow is how many elements behind a row's last are read.
const behindRow = 2

// make plans count tiles from first on.
func (p *patchPlan) make(s *winogradPatches, first, count int) {
	p.at, p.runs, p.size = p.at[:0], p.runs[:0], 0
	p.row = s.step*(min(count, s.grid[2])-1) + s.size + behindRow
	for count > 0 {
		at := s.grid.at(first)
		n := min(count, s.grid[2]-at[2])
		for i := range n {
			p.at = append(p.at, p.size+s.step*i)
		}
		p.band(s, at, s.step*(n-1)+s.size)
		first += n
		count -= n
	}
	p.size += behindRow
}

// band plans the rows of tiles that lie side by side, width elements in all.
func (p *patchPlan) band(s *winogradPatches, at [3]int, width int) {
	x, y := s.left+s.step*at[2], s.top+s.step*at[1]
	lo, hi := max(0, -x), min(width, s.columns-x)
	for r := range s.size {
		if y+r >= 0 && y+r < s.rows && lo < hi {
			p.runs = append(p.runs, patchRun{p.size + lo, at[0]*s.image + (y+r)*s.row + (x+lo)*s.column, hi - lo})
		}
		p.size += p.row
	}
}

// copy fills memory, whose other elements are 0, with a channel.
func (p *patchPlan) copy(s *winogradPatches, dst []float32, channel int) {
	base := offset(s.ptr, channel*s.channel, s.access.size)
	if !s.access.direct || s.column != 1 {
		for i := range p.runs {
			r := &p.runs[i]
			s.access.load(dst[r.to:][:r.n], offset(base, r.from, s.access.size), s.column)
		}
		return
	}
	for i := range p.runs {
		r := &p.runs[i]
		copy(dst[r.to:][:r.n], slice[float32](offset(base, r.from, 4), r.n))
	}
}

// winogradTargets are where tiles of results go.
type winogradTargets struct {
	access  accessor[float32]
	ptr     device.Ptr
	stride  [4]int
	rows    int // of a plane of results
	columns int
	size    int // of a tile
	grid    grid
	tiles   []targetTile // those in work
}

type targetTile struct {
	at            int // elements from the first of the plane of image 0
	rows, columns int
}

// make computes where count tiles from first on go.
func (t *winogradTargets) make(first, count int) {
	t.tiles = t.tiles[:0]
	at := t.grid.at(first)
	for range count {
		y, x := t.size*at[1], t.size*at[2]
		t.tiles = append(t.tiles, targetTile{at[0]*t.stride[0] + y*t.stride[2] + x*t.stride[3], min(t.size, t.rows-y), min(t.size, t.columns-x)})
		if at[2]++; at[2] == t.grid[2] {
			t.grid.nextRow(&at)
		}
	}
}

// put computes results of the tiles from first on, at most eight, from sums at src, and writes them to the plane of a channel.
func (t *winogradTargets) put(result winogradOut, w *winogradWorker, first, channel int, src *float32, position int, bias float32) {
	tiles := t.tiles[first:min(first+winogradLanes, len(t.tiles))]
	plane := offset(t.ptr, channel*t.stride[1], t.access.size)
	whole := t.access.direct && t.stride[3] == 1 && len(tiles) == winogradLanes
	for i := 0; whole && i < winogradLanes; i++ {
		w.lanes[i] = tiles[i].at
		whole = tiles[i].rows == t.size && tiles[i].columns == t.size
	}
	if whole {
		result(&slice[float32](plane, 1)[0], &w.lanes, t.stride[2], src, position, bias, &w.work)
		return
	}
	line := t.size * winogradLanes // of all tiles, side by side
	for i := range w.lanes {
		w.lanes[i] = t.size * i
	}
	result(&w.tiles[0], &w.lanes, line, src, position, bias, &w.work)
	for i, n := 0, 0; i < len(tiles); i += n {
		var columns int
		n, columns = t.side(tiles[i:])
		for r := range tiles[i].rows {
			t.access.store(offset(plane, tiles[i].at+r*t.stride[2], t.access.size), t.stride[3], w.tiles[r*line+t.size*i:][:columns])
		}
	}
}

// side is how many of the tiles, from the first on, lie side by side in a line, and their columns.
func (t *winogradTargets) side(tiles []targetTile) (n, columns int) {
	for n, columns = 1, tiles[0].columns; n < len(tiles) && columns == n*t.size && tiles[n].at == tiles[0].at+columns*t.stride[3] && tiles[n].rows == tiles[0].rows; n++ {
		columns += tiles[n].columns
	}
	return n, columns
}
