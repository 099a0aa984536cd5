package cpu

import (
	"math/bits"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Gradients of kernels of float32, as sums over places of one operand's elements times the other's:
//
//	dst[output, (channel, tap)] = sum over places of gradient[output, place] * image[channel, place + tap]
//
// Sixteen or 32 rows of one operand, the gradient, are packed side by side for each place. The elements of the other are read one by one where
// they lie, so a tap is nothing but a distance: the image is not copied once for each tap. It is copied only where it is padded. Where there
// is one tap only, the operands may change places, so that the one of fewer channels is packed.
//
//	for each slice of places
//	    pack one operand, copy the other if need be     in parallel over panels and channels
//	    for each tile: sums += rows * panel             in parallel
//	write the sums                                      in parallel over panels
//
// Where the sums are few, a slice is too little work to share, and the slices are shared instead, in groups with sums of their own. How many
// groups there are depends on the shapes alone, so results do not depend on the number of processors.

const (
	correlateRows    = 6  // of a tile
	correlateColumns = 16 // of the narrowest tile

	correlatePlaces = 512     // about the places of a slice
	correlateMemory = 1 << 19 // elements of a slice that are packed and copied, about
	correlateSums   = 4 << 20 // sums of a gradient, at most

	correlateGroups    = 8       // of slices, at most
	correlateGroupSums = 1 << 18 // sums of all groups, at most
)

// correlateCall is a call of the loop over the places of a tile: lines of places of some planes, which lie a step apart in a, and
// side by side in b. It adds to 6 x columns sums that lie one behind the other:
//
//	sums[r][j] += sum over places p of (a at offsets[r] + p) * b[p][j]
//
// Assembly reads it by the places of its fields; distances are in bytes. There is one place at least.
type correlateCall struct {
	a, b, sums            *float32
	offsets               *int // of six rows
	planes, lines, places int
	step                  int
	lineSkip, planeSkip   int // from behind the last place of a line to the next line, and likewise for planes
}

// correlateKernel is a loop for tiles of so many columns.
type correlateKernel struct {
	columns int
	tile    func(c *correlateCall)
}

// correlateKernels are those of this processor, from correlateColumns on, each twice as wide as the one before.
var correlateKernels []correlateKernel

// chooseCorrelate is the widest kernel that computes no more columns in vain than the narrowest: so the sums are as many, whatever it is.
func chooseCorrelate(columns int) correlateKernel {
	k := correlateKernels[0]
	for _, wider := range correlateKernels[1:] {
		if panels(columns, wider.columns)*wider.columns == panels(columns, correlateColumns)*correlateColumns {
			k = wider
		}
	}
	return k
}

// correlation is one gradient of kernels in work, for one group.
type correlation struct {
	read    patch[float32] // the operand whose elements are read one by one
	packed  patch[float32]
	turned  bool // it is the gradient that is read, and the image that is packed
	inPlace bool // what is read is not copied
	serial  bool
	loop    correlateKernel
	rows    int // of read: channels and taps
	columns int // of packed: channels
	kernel  *op.View
	first   int // output of the group

	planes, lines, width int // of a slice, at most
	at                   [3]int
	call                 correlateCall // of the slice in work, but for pointers
	offsets              []int
	distance             [3]int // of channels and taps, that offsets are for
	high, wide           int    // of a plane's copy
	copies               []float32
	panels, sums         []float32
	groups               correlateGroupJob
}

var correlations = sync.Pool{New: func() any { return new(correlation) }}

// isCorrelated reports whether a correlation is the way to compute a gradient of rows outputs of columns channels and taps.
func isCorrelated(outputs, channels, taps int) bool {
	if len(correlateKernels) == 0 {
		return false
	}
	rows, columns := panels(channels*taps, correlateRows)*correlateRows, panels(outputs, correlateColumns)*correlateColumns
	return rows*columns <= correlateSums && 2*rows*columns <= 3*outputs*channels*taps
}

// correlated computes what weight computes.
func (g *convGemm[T]) correlated(v *op.Convolution, group int) {
	c := correlations.Get().(*correlation)
	image, gradient := any(g.image).(patch[float32]), any(g.gradient).(patch[float32])
	taps := v.Kernel.Shape[2] * v.Kernel.Shape[3]
	c.read, c.packed, c.rows, c.columns = image, gradient, v.Channels*taps, v.Outputs
	c.turned = taps == 1 && v.Channels < v.Outputs && image.plain() && gradient.plain()
	if c.turned {
		c.read, c.packed, c.rows, c.columns = gradient, image, v.Outputs, v.Channels
	}
	c.kernel, c.first, c.serial = v.Kernel, group*v.Outputs, g.serial
	c.loop = chooseCorrelate(c.columns)
	c.compute()
	c.kernel, c.call = nil, correlateCall{} // the pool keeps no tensor's memory
	correlations.Put(c)
}

func (c *correlation) compute() {
	c.begin()
	slices := c.slices()
	if groups := min(slices, correlateGroups, correlateGroupSums/len(c.sums)); groups > 1 {
		c.inGroups(slices, 1<<(bits.Len(uint(groups))-1)) // a number that two processors, or four, share evenly
	} else {
		c.add(0, slices)
	}
	c.split(panels(c.columns, c.loop.columns), 1, (*correlateFinishJob)(c))
}

// begin sets the sums to zero.
func (c *correlation) begin() {
	c.inPlace = c.read.access.direct && c.read.inside()
	c.distance = noDistance
	c.cut()
	c.sums = sized(c.sums, c.units()*c.tile())
	clear(c.sums)
}

// tile is how many sums a tile has.
func (c *correlation) tile() int { return correlateRows * c.loop.columns }

// units is the number of tiles.
func (c *correlation) units() int {
	return panels(c.columns, c.loop.columns) * panels(c.rows, correlateRows)
}

// slices is the number of slices, which are in the order of their places.
func (c *correlation) slices() int {
	g := &c.read.grid
	return panels(g[0], c.planes) * panels(g[1], c.lines) * panels(g[2], c.width)
}

// add adds the products of slices from one to another.
func (c *correlation) add(from, to int) {
	g := &c.read.grid
	high, wide := panels(g[1], c.lines), panels(g[2], c.width)
	for i := from; i < to; i++ {
		c.slice([3]int{i / (high * wide) * c.planes, i / wide % high * c.lines, i % wide * c.width})
		c.split(panels(c.columns, c.loop.columns)+c.copied(), 1, (*correlatePackJob)(c))
		c.split(c.units(), max(1, elementGrain/c.places()), (*correlateTileJob)(c))
	}
}

func (c *correlation) split(n, grain int, j job) {
	if c.serial {
		j.run(0, n)
		return
	}
	split(n, grain, j)
}

// inside reports whether no tap reads beyond the image.
func (g *patch[T]) inside() bool {
	within := func(a *op.Axis, size int) bool {
		return a.At0 >= 0 && a.At0+(a.Taps-1)*a.AtTap+(a.Size-1)*a.AtStep < size
	}
	return within(&g.axis[0], g.rows) && within(&g.axis[1], g.columns)
}

// cut sets how large slices are: whole planes, or lines of a plane, or a part of a line, in pieces of about the same size.
func (c *correlation) cut() {
	grid := &c.read.grid
	most := max(32, min(correlatePlaces*correlateColumns/c.loop.columns, correlateMemory/(c.rows/c.taps()+c.columns)))
	even := func(n, most int) int { return panels(n, panels(n, most)) }
	c.planes, c.lines, c.width = 1, 1, even(grid[2], most)
	if c.width < grid[2] {
		return
	}
	c.lines = even(grid[1], max(1, min(grid[1], most/c.width)))
	if c.lines == grid[1] {
		c.planes = even(grid[0], max(1, most/(c.width*c.lines)))
	}
}

func (c *correlation) taps() int { return c.read.axis[0].Taps * c.read.axis[1].Taps }

// copied is the number of channels that are copied.
func (c *correlation) copied() int {
	if c.inPlace {
		return 0
	}
	return c.rows / c.taps()
}

func (c *correlation) places() int { return c.call.planes * c.call.lines * c.call.places }

// slice begins with the slice of places from at on.
func (c *correlation) slice(at [3]int) {
	p, k := &c.read, &c.call
	h, w := &p.axis[0], &p.axis[1]
	c.at = at
	k.planes, k.lines, k.places = min(c.planes, p.grid[0]-at[0]), min(c.lines, p.grid[1]-at[1]), min(c.width, p.grid[2]-at[2])
	c.high = (k.lines-1)*h.AtStep + (h.Taps-1)*h.AtTap + 1
	c.wide = (k.places-1)*w.AtStep + (w.Taps-1)*w.AtTap + 1
	image, channel, row, column := c.high*c.wide, k.planes*c.high*c.wide, c.wide, 1
	if c.inPlace {
		image, channel, row, column = p.image, p.channel, p.row, p.column
		first := offset(p.ptr, at[0]*image+(h.At0+at[1]*h.AtStep)*row+(w.At0+at[2]*w.AtStep)*column, p.access.size)
		k.a = &slice[float32](first, 1)[0]
	} else {
		c.copies = sized(c.copies, c.copied()*channel)
		k.a = &c.copies[0]
	}
	const size = 4
	k.step = size * w.AtStep * column
	k.lineSkip = size*h.AtStep*row - k.places*k.step
	k.planeSkip = size * (image - k.lines*h.AtStep*row)
	c.distances(size*channel, size*h.AtTap*row, size*w.AtTap*column)
	c.panels = sized(c.panels, panels(c.columns, c.loop.columns)*c.loop.columns*c.places())
}

// noDistance is that of no operand, as they are in bytes.
var noDistance = [3]int{-1, -1, -1}

// distances sets the distance of each channel and tap, if they are others than in the slice before. The rows beyond the last are the last one again.
func (c *correlation) distances(channel, down, across int) {
	now := [3]int{channel, down, across}
	if now == c.distance {
		return
	}
	c.distance = now
	c.offsets = sized(c.offsets, panels(c.rows, correlateRows)*correlateRows)
	high, wide := c.read.axis[0].Taps, c.read.axis[1].Taps
	for i := range c.offsets {
		r := min(i, c.rows-1)
		c.offsets[i] = r/(high*wide)*channel + r/wide%high*down + r%wide*across
	}
}

// correlatePackJob packs panels, and then copies channels.
type correlatePackJob correlation

func (j *correlatePackJob) run(lo, hi int) {
	c := (*correlation)(j)
	for n := panels(c.columns, c.loop.columns); lo < hi; lo++ {
		if lo < n {
			c.pack(lo)
		} else {
			c.copy(lo - n)
		}
	}
}

// pack packs the places of the slice of the channels of a tile.
func (c *correlation) pack(i int) {
	first := i * c.loop.columns
	n, k, places := min(c.loop.columns, c.columns-first), &c.call, c.places()
	panel := c.panels[first*places:][:c.loop.columns*places]
	clearBeyond(panel, n, c.loop.columns)
	for plane := range k.planes {
		at := c.packed.grid.at(((c.at[0]+plane)*c.read.grid[1]+c.at[1])*c.read.grid[2] + c.at[2])
		for left := k.lines * k.places; left > 0; {
			count := min(left, c.packed.grid[2]-at[2])
			c.packRun(panel[:count*c.loop.columns], first, n, at)
			panel = panel[count*c.loop.columns:]
			left -= count
			c.packed.grid.nextRow(&at)
		}
	}
}

// packRun packs the places from at on of n channels, which lie in one line.
func (c *correlation) packRun(panel []float32, first, n int, at [3]int) {
	p := &c.packed
	w := &p.axis[1]
	count := len(panel) / c.loop.columns
	from := offset(p.ptr, at[0]*p.image+first*p.channel+(p.axis[0].At0+at[1]*p.axis[0].AtStep)*p.row+(w.At0+at[2]*w.AtStep)*p.column, p.access.size)
	if p.access.direct && p.column*w.AtStep == 1 {
		packPanel(panel, matrix{from, p.channel, 1}, n, c.loop.columns, count, p.access.size, first, c.columns-first, &kernels32.pack)
		return
	}
	s := takeScratch()
	defer scratches.Put(s)
	for i := range n {
		line := scratchBuffer[float32](s, 0, count)
		p.access.load(line, offset(from, i*p.channel, p.access.size), p.column*w.AtStep)
		placeRow(panel[i:], line, c.loop.columns)
	}
}

// copy copies a channel, with zeros where it is padded.
func (c *correlation) copy(channel int) {
	p := c.read
	h, w := &p.axis[0], &p.axis[1]
	y, x := h.At0+c.at[1]*h.AtStep, w.At0+c.at[2]*w.AtStep
	w.AtStep = 1
	to := c.copies[channel*c.call.planes*c.high*c.wide:]
	for n := range c.call.planes {
		for r := range c.high {
			p.line(to[:c.wide], (c.at[0]+n)*p.image+channel*p.channel, y+r, x)
			to = to[c.wide:]
		}
	}
}

// correlateTileJob adds the products of the slice to tiles.
type correlateTileJob correlation

func (j *correlateTileJob) run(lo, hi int) {
	c := (*correlation)(j)
	tiles, places := panels(c.rows, correlateRows), c.places()
	call := correlateCalls.Get().(*correlateCall)
	*call = c.call
	for ; lo < hi; lo++ {
		call.b, call.sums = &c.panels[lo/tiles*c.loop.columns*places], &c.sums[lo*c.tile()]
		call.offsets = &c.offsets[lo%tiles*correlateRows]
		c.loop.tile(call)
	}
	*call = correlateCall{}
	correlateCalls.Put(call)
}

var correlateCalls = sync.Pool{New: func() any { return new(correlateCall) }}

// correlateFinishJob writes the sums of panels.
type correlateFinishJob correlation

func (j *correlateFinishJob) run(lo, hi int) {
	c := (*correlation)(j)
	size := panels(c.rows, correlateRows) * c.tile()
	for ; lo < hi; lo++ {
		first := lo * c.loop.columns
		n := min(c.loop.columns, c.columns-first)
		if sums := c.sums[lo*size:][:size]; c.turned {
			c.finishTurned(sums, first, n)
		} else {
			c.finish(sums, first, n)
		}
	}
}

func (c *correlation) element(output, channel int) device.Ptr {
	s := &c.kernel.Strides
	return offset(c.kernel.Ptr, (c.first+output)*s[0]+channel*s[1], c.read.access.size)
}

// finishTurned writes the gradients of all outputs by n channels from first on.
func (c *correlation) finishTurned(sums []float32, first, n int) {
	for r := range c.rows {
		c.read.access.store(c.element(r, first), c.kernel.Strides[1], sums[r*c.loop.columns:][:n])
	}
}

// finish writes the gradients of n outputs from first on.
func (c *correlation) finish(sums []float32, first, n int) {
	s, shape := &c.kernel.Strides, &c.kernel.Shape
	high, wide := shape[2], shape[3]
	if c.read.access.direct && s[3] == 1 && s[2] == wide && s[1] == high*wide && kernels32.pack.four != nil {
		c.turn(sums, first, n)
		return
	}
	buffer := takeScratch()
	defer scratches.Put(buffer)
	for i := range n {
		for r := 0; r < c.rows; {
			count := min(wide-r%wide, chunk)
			line := scratchBuffer[float32](buffer, 0, count)
			for v := range line {
				line[v] = sums[(r+v)*c.loop.columns+i]
			}
			p := offset(c.element(first+i, r/(high*wide)), r/wide%high*s[2]+r%wide*s[3], c.read.access.size)
			c.read.access.store(p, s[3], line)
			r += count
		}
	}
}

// turn writes gradients that lie straight in memory: four rows of sums at a time, and those that are left over one by one.
func (c *correlation) turn(sums []float32, first, n int) {
	steps, fours, s := n&^3, c.rows&^3, c.kernel.Strides[0]
	out := slice[float32](c.element(first, 0), (n-1)*s+c.rows)
	for r := 0; r < fours && steps > 0; r += 4 {
		kernels32.pack.four(steps, &out[r], s, &sums[r*c.loop.columns], c.loop.columns)
	}
	for i := range n {
		from := fours
		if i >= steps {
			from = 0
		}
		for r := from; r < c.rows; r++ {
			out[i*s+r] = sums[r*c.loop.columns+i]
		}
	}
}
