package cuda

import (
	"math/bits"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Sorting of indices, for operations that add in order: src/index.cu.

// entryBytes is the size of an Entry in src/index.cu, digits are its DIGITS, and sortTile the entries that a block sorts when
// several do.
const (
	entryBytes = 8
	digits     = 16
	sortTile   = 8 * threads
)

var (
	indexSort = named("index", "index_sort")
	sortCount = named("index", "sort_count")
	sortScan  = named("index", "sort_scan")
	sortMove  = named("index", "sort_move")
)

// sortSpace is the workspace for sorting n entries: two lists of them, and how many of each digit each tile has.
func sortSpace(n int) uint64 {
	return 2*entryBytes*uint64(n) + 4*digits*uint64((n+sortTile-1)/sortTile)
}

// sort sorts the n entries at the start of the workspace by their index, which is below size, stably. It returns where the
// result is.
func (t *task) sort(c *op.Call, n, size int) (device.Ptr, error) {
	from := c.Work.Ptr
	to := from.Add(entryBytes * uint64(n))
	totals := to.Add(entryBytes * uint64(n))
	passes := (bits.Len(uint(size-1)) + 3) / 4 // of four bits; for a size of 1 there is none, and the order is as it was
	if n <= 2*sortTile {                       // one block does all passes, with barriers in place of launches
		t.params.Int32(int32(n)).Int32(int32(passes)).Ptr(from).Ptr(to)
		if passes%2 == 1 {
			from = to
		}
		return from, t.launch(c, indexSort, blocks(1, 1))
	}
	// By radix, four bits in a pass, the lowest first. A pass is three launches: digits are counted, then added up to where each tile's begin,
	// then entries are moved. The number of passes follows from size, not from the indices, so nothing waits for the host.
	grid := blocks(n, sortTile) // below 2^20 blocks, and 16 counts of each: what is added up in between is counted in 32 bits
	for pass := range passes {
		t.params.Int32(int32(n)).Int32(sortTile).Int32(int32(pass)).Ptr(from).Ptr(totals)
		if err := t.launch(c, sortCount, grid); err != nil {
			return 0, err
		}
		t.params.Int32(int32(digits * int(grid.X))).Ptr(totals)
		if err := t.launch(c, sortScan, blocks(1, 1)); err != nil {
			return 0, err
		}
		t.params.Int32(int32(n)).Int32(sortTile).Int32(int32(pass)).Ptr(from).Ptr(to).Ptr(totals)
		if err := t.launch(c, sortMove, grid); err != nil {
			return 0, err
		}
		from, to = to, from
	}
	return from, nil
}
