package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Sort and TopK.

// sortPlan is SortPlan in src/sort.cu.
type sortPlan struct {
	rows, columns int
	padded        int // entries that are sorted together: a power of two, as the network of comparisons wants
	shared        int // short rows of a block
	tiles         int // of a row
	keep          int // entries that a tile hands on to the next pass
	flip          int // 1: descending
	direct        int // 1: a row is one tile, whose kernel writes the results itself
}

// add appends a SortPlan.
func (p *sortPlan) add(params *device.Params) {
	params.Words(pair(uint32(p.rows), uint32(p.columns)), pair(uint32(p.padded), uint32(p.shared)),
		pair(uint32(p.tiles), uint32(p.keep)), pair(uint32(p.flip), uint32(p.direct)))
}

// total is the number of entries that the tiles of a row keep.
func (p *sortPlan) total(tile int) int {
	return (p.tiles-1)*p.keep + min(p.keep, p.columns-(p.tiles-1)*tile)
}

// sorter is Sort and TopK of one type.
type sorter struct {
	rows, out, again, merge *kernel
	tile                    int // TILE in src/sort.cu
	entry                   int // bytes of an entry
}

// sortRows: an entry is a key and a place, in 8 bytes if the element has up to 4, else in 16; a tile is what fits into shared memory, 32 KiB.
func sortRows() []op.Row {
	byType := map[dtype.DType]*sorter{}
	for _, d := range op.Sort.Types() {
		s := &sorter{tile: 4096, entry: 8, again: sortAgain[0], merge: sortMerge[0]}
		if d.Size() == 8 {
			s = &sorter{tile: 2048, entry: 16, again: sortAgain[1], merge: sortMerge[1]}
		}
		s.rows, s.out = named("sort", "sort_"+suffixes[d]), named("sort", "sort_"+suffixes[d]+"_out")
		byType[d] = s
	}
	var rows []op.Row
	for _, id := range []op.ID{op.Sort, op.TopK} {
		r := typedRow(id, func(d dtype.DType) op.Func { return byType[d].run })
		r.Workspace = func(c *op.Call) uint64 { return byType[c.In[0].DType].space(c) }
		rows = append(rows, r)
	}
	return rows
}

var (
	sortAgain = [2]*kernel{named("sort", "sort_again_narrow"), named("sort", "sort_again_wide")}
	sortMerge = [2]*kernel{named("sort", "sort_merge_narrow"), named("sort", "sort_merge_wide")}
)

// plan sets the task's loop to the first elements of the rows, and makes the plan of the first pass over them. Long rows keep all
// entries of a tile, unless so few are wanted that tiles can be thinned out.
func (s *sorter) plan(t *task, c *op.Call) (p sortPlan, wanted int, steps [3]int) {
	views := [3]op.View{c.Out[0], c.Out[1], c.In[0]}
	last := views[0].NDim - 1
	p.columns, wanted = views[2].Shape[last], views[0].Shape[last]
	for k := range views {
		steps[k] = views[k].Strides[last]
		views[k].Shape[last] = 1
	}
	t.loop.Set(&views[0], views[1:])
	p.rows, p.shared, p.padded, p.tiles, p.keep = t.loop.Total, 1, s.tile, (p.columns+s.tile-1)/s.tile, wanted
	if c.I[0] != 0 {
		p.flip = 1
	}
	switch {
	case p.columns <= s.tile:
		p.direct, p.padded = 1, powerUp(p.columns)
		p.shared = max(1, 1024/max(p.padded, 1)) // of entries in shared memory: four for each thread of a block
	case !s.thins(wanted): // most of a row is wanted, so that throwing entries away gains nothing: runs are merged
		p.keep = s.tile
	}
	return p, wanted, steps
}

// thins reports whether tiles that keep so many entries become fewer with each pass.
func (s *sorter) thins(wanted int) bool { return wanted <= s.tile/2 }

// space is the workspace: two lists of the entries that the first pass keeps.
func (s *sorter) space(c *op.Call) uint64 {
	t := takeTask()
	defer tasks.Put(t)
	p, wanted, _ := s.plan(t, c)
	if p.direct != 0 || wanted == 0 {
		return 0
	}
	return 2 * uint64(s.entry) * uint64(p.rows) * uint64(p.total(s.tile))
}

// run sorts rows of up to a tile in one launch. Longer ones are sorted tile by tile, then thinned out or merged, and written by a last launch.
func (s *sorter) run(c *op.Call) error {
	t := takeTask()
	defer tasks.Put(t)
	p, wanted, steps := s.plan(t, c)
	if p.rows == 0 || wanted == 0 {
		return nil
	}
	// All blocks are in the first dimension of the grid, which ends at 2^31-1.
	if p.columns >= maxLoop || p.rows >= maxLoop || (p.rows/p.shared+1)*p.tiles >= maxLoop {
		return op.Errorf(c.Op, op.ErrCall, "%d rows of %d elements are too many", p.rows, p.columns)
	}
	from := c.Work.Ptr
	s.addRows(t, &p, steps, from)
	if err := t.launch(c, s.rows, device.Dim3{X: uint32((p.rows + p.shared - 1) / p.shared * p.tiles)}); err != nil || p.direct != 0 {
		return err
	}
	n := p.total(s.tile) // entries of a row; the two lists take turns, each pass behind the one before on the stream
	to := from.Add(uint64(s.entry) * uint64(p.rows) * uint64(n))
	var err error
	if s.thins(wanted) {
		from, n, err = s.thin(t, c, p, from, to)
	} else {
		from, err = s.mergeAll(t, c, p.rows, n, from, to)
	}
	if err != nil {
		return err
	}
	p.columns, p.keep = n, wanted
	s.addRows(t, &p, steps, from)
	grid := blocks(wanted, threads)
	grid.Y = uint32(min(p.rows, maxGridZ)) // a block goes on with each row that is grid.Y further on
	return t.launch(c, s.out, grid)
}

// addRows appends the parameters of a kernel that looks at the rows.
func (s *sorter) addRows(t *task, p *sortPlan, steps [3]int, work device.Ptr) {
	t.loop.walk(&t.params)
	p.add(&t.params)
	for k := range steps {
		t.params.Ptr(t.loop.Ptr[k])
	}
	t.params.Words(uint64(steps[0]), uint64(steps[1]), uint64(steps[2])).Ptr(work)
}

// thin keeps the first entries of each tile of entries, until one tile is left. It returns where they are, and how many a row has.
func (s *sorter) thin(t *task, c *op.Call, p sortPlan, from, to device.Ptr) (device.Ptr, int, error) {
	for p.tiles > 1 {
		p.columns = p.total(s.tile)
		p.tiles = (p.columns + s.tile - 1) / s.tile
		p.padded = min(s.tile, powerUp(p.columns)) // what is not there counts as behind everything, and is sorted to the end
		p.add(&t.params)
		t.params.Ptr(from).Ptr(to)
		if err := t.launch(c, s.again, device.Dim3{X: uint32(p.rows * p.tiles)}); err != nil {
			return 0, 0, err
		}
		from, to = to, from // what was written is read next, behind it on the stream
	}
	return from, p.total(s.tile), nil
}

// mergeAll merges the tiles of each row, of n entries, and returns where the result is.
func (s *sorter) mergeAll(t *task, c *op.Call, rows, n int, from, to device.Ptr) (device.Ptr, error) {
	grid := blocks(n, threads)
	grid.Y = uint32(min(rows, maxGridZ))
	// Sorted runs of twice the length with each launch, the first of them the tiles.
	for run := s.tile; run < n; run *= 2 {
		t.params.Int32(int32(rows)).Int32(int32(n)).Int32(int32(run)).Ptr(from).Ptr(to)
		if err := t.launch(c, s.merge, grid); err != nil {
			return 0, err
		}
		from, to = to, from
	}
	return from, nil
}
