package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// winogradWeights are the kernels: outputs, in the sense of op.Axis, by channels.
type winogradWeights struct {
	access       accessor[float32]
	ptr          device.Ptr
	row, channel int
	down, across int
	turned       bool
}

var winogradConvs = sync.Pool{New: func() any { return &winogradConv{kernels: &winogradLoops} }}

// winograd computes a call in tiles, group by group.
func winogradCall(l accessor[float32], v *op.Convolution, id op.ID, bias []float32) {
	if id == op.Conv2DGradWeight {
		winogradWeightCall(l, v)
		return
	}
	g := winogradConvs.Get().(*winogradConv)
	for group := range v.Groups {
		g.set(l, v, id, group)
		if g.bias = nil; bias != nil {
			g.bias = bias[group*g.outputs:] // of the image's channels in a transposed convolution
		}
		g.compute()
	}
	g.bias = nil
	winogradConvs.Put(g)
}

// set makes g the convolution of one group.
func (g *winogradConv) set(l accessor[float32], v *op.Convolution, id op.ID, group int) {
	from, to := v.Image, v.Result
	first, target := group*v.Channels, group*v.Outputs
	g.channels, g.outputs, g.form = v.Channels, v.Outputs, g.kernels.form(v)
	top, left := -v.Padding[0], -v.Padding[1]
	k := v.Kernel.Strides
	g.weights = winogradWeights{
		access: l, ptr: offset(v.Kernel.Ptr, group*v.Outputs*k[0], l.size), row: k[0], channel: k[1], down: k[2], across: k[3],
	}
	if id == op.Conv2DGradInput {
		from, to, first, target = to, from, target, first
		g.channels, g.outputs = g.outputs, g.channels
		top, left = v.Padding[0]-(g.form.taps-1), v.Padding[1]-(g.form.taps-1)
		g.weights.row, g.weights.channel, g.weights.turned = k[1], k[0], true
	}
	h, w := to.Shape[2], to.Shape[3]
	g.patches = patchesOf(l, from, first, [2]int{h, w}, [2]int{top, left}, 6, g.form.size)
	g.access, g.results.access = l, l
	g.results.ptr, g.results.stride = offset(to.Ptr, target*to.Strides[1], l.size), [4]int(to.Strides[:4])
	g.results.rows, g.results.columns, g.results.grid, g.results.size = h, w, g.patches.grid, g.form.size
}

func (g *winogradConv) compute() {
	tiles := g.patches.grid.len()
	g.tile = g.kernels.choose(tiles)
	if winogradPositions*g.rows()*g.channels <= winogradFilters {
		g.filters.resize(g.rows() * g.channels)
		split(panels(g.outputs, g.tile.mr), max(1, 64/g.channels), (*winogradFilterJob)(g))
		split(panels(tiles, g.block()), 1, (*winogradTileJob)(g))
		return
	}
	most := max(1, winogradImages/winogradPositions/g.channels/g.tile.nr) * g.tile.nr
	for g.first = 0; g.first < tiles; g.first += most {
		g.count = min(most, tiles-g.first)
		g.results.make(g.first, g.count)
		g.images.resize(g.columns(g.count) * g.channels)
		split(panels(g.count, g.tile.nr)*panels(g.channels, winogradDepth), 1, (*winogradImageJob)(g))
		split(panels(g.outputs, winogradRows), 1, (*winogradOutputJob)(g))
	}
}

// rows is the number of outputs, made full panels, and columns that of some tiles.
func (g *winogradConv) rows() int             { return panels(g.outputs, g.tile.mr) * g.tile.mr }
func (g *winogradConv) columns(tiles int) int { return panels(tiles, g.tile.nr) * g.tile.nr }

// block is how many tiles a worker takes where kernels are few.
func (g *winogradConv) block() int {
	return max(1, winogradBlock/winogradPositions/(g.channels+g.rows())/g.tile.nr) * g.tile.nr
}

// load sets dst to count kernels of n x n elements, of which the first is at p, one behind the other.
func (k *winogradWeights) load(dst []float32, p device.Ptr, count, n int) {
	all := n * n
	if k.across == 1 && k.down == n && k.row == all {
		k.access.load(dst[:all*count], p, 1)
		return
	}
	for i := range count {
		for r := range n {
			k.access.load(dst[n*(n*i+r):][:n], offset(p, i*k.row+r*k.down, k.access.size), k.across)
		}
	}
}

// filterPanel transforms the kernels of a panel of outputs.
func (g *winogradConv) filterPanel(to *matrices36, panel, first int, w *winogradWorker) {
	k, mr, n := &g.weights, g.tile.mr, g.form.taps
	f := g.form.filter
	if k.turned {
		f = g.form.turned
	}
	direct := k.access.direct && k.across == 1 && k.down == n
	for i := range w.lanes {
		w.lanes[i] = min(i, g.outputs-1-first) * k.row
		if !direct {
			w.lanes[i] = n * n * i
		}
	}
	if !direct && k.across == 1 && k.down == n && k.channel == n*n {
		g.filterRuns(to, panel, first, f, w)
		return
	}
	for c := range g.channels {
		dst := to.at(0, panel*mr*g.channels+c*mr)
		at := offset(k.ptr, first*k.row+c*k.channel, k.access.size)
		if direct {
			f(dst, to.position, &slice[float32](at, 1)[0], &w.lanes, n, &w.work)
			continue
		}
		k.load(w.tiles[:], at, min(mr, g.outputs-first), n)
		f(dst, to.position, &w.tiles[0], &w.lanes, n, &w.work)
	}
}

// filterRuns is filterPanel where an output's kernels lie one behind the other: those of some channels are converted at once.
func (g *winogradConv) filterRuns(to *matrices36, panel, first int, f winogradIn, w *winogradWorker) {
	const most = 16 // channels
	k, mr, n := &g.weights, g.tile.mr, g.form.taps
	run := most * n * n
	w.kernels = sized(w.kernels, len(w.lanes)*run)
	for i := range w.lanes {
		w.lanes[i] = min(i, g.outputs-1-first) * run
	}
	for c := 0; c < g.channels; c += most {
		channels := min(most, g.channels-c)
		for i := range min(mr, g.outputs-first) {
			k.access.load(w.kernels[i*run:][:channels*n*n], offset(k.ptr, (first+i)*k.row+c*k.channel, k.access.size), 1)
		}
		for d := range channels {
			f(to.at(0, panel*mr*g.channels+(c+d)*mr), to.position, &w.kernels[d*n*n], &w.lanes, n, &w.work)
		}
	}
}

// winogradFilterJob transforms kernels, by panels of outputs.
type winogradFilterJob winogradConv

func (j *winogradFilterJob) run(lo, hi int) {
	g := (*winogradConv)(j)
	w := takeWinogradWorker()
	defer winogradWorkers.Put(w)
	for ; lo < hi; lo++ {
		g.filterPanel(&g.filters, lo, lo*g.tile.mr, w)
	}
}

// transform writes the transformed patches of the tiles in w's plan: those of channels c..end-1 to panels of columns from column on.
func (g *winogradConv) transform(to *matrices36, column, c, end int, w *winogradWorker) {
	nr, at := g.tile.nr, w.plan.at
	w.buffer = sized(w.buffer, w.plan.size)
	clear(w.buffer)
	for ; c < end; c++ {
		w.plan.copy(&g.patches, w.buffer, c)
		for t := 0; t < len(at); t += winogradLanes {
			for i := range w.lanes {
				w.lanes[i] = at[min(t+i, len(at)-1)]
			}
			x := column + t
			dst := to.at(0, x/nr*nr*g.channels+c*nr+x%nr)
			g.kernels.image(dst, to.position, &w.buffer[0], &w.lanes, w.plan.row, &w.work)
		}
	}
}

// multiply computes the sums of rows/mr panels of outputs for columns/nr panels of tiles.
func (g *winogradConv) multiply(sums, filters, images *matrices36, rows, columns int) {
	mr, nr, n := g.tile.mr, g.tile.nr, g.channels
	for p := range winogradPositions {
		for j := 0; j < columns; j += nr {
			for i := 0; i < rows; i += mr {
				g.tile.tile(n, filters.at(p, i*n), images.at(p, j*n), sums.at(p, i*columns+j), columns, 1, false)
			}
		}
	}
}

// finish writes the results of outputs first..first+count-1.
func (g *winogradConv) finish(t *winogradTargets, sums *matrices36, columns, first, count int, w *winogradWorker) {
	for k := range count {
		var bias float32
		if g.bias != nil {
			bias = g.bias[first+k]
		}
		for x := 0; x < len(t.tiles); x += winogradLanes {
			t.put(g.form.result, w, x, first+k, sums.at(0, k*columns+x), sums.position, bias)
		}
	}
}

// winogradTileJob computes the results of blocks of tiles.
type winogradTileJob winogradConv

func (j *winogradTileJob) run(lo, hi int) {
	g := (*winogradConv)(j)
	w := takeWinogradWorker()
	defer winogradWorkers.Put(w)
	tiles := w.targets.tiles
	w.targets = g.results
	w.targets.tiles = tiles
	for ; lo < hi; lo++ {
		first := lo * g.block()
		count := min(g.block(), g.patches.grid.len()-first)
		columns := g.columns(count)
		w.plan.make(&g.patches, first, count)
		w.targets.make(first, count)
		w.images.resize(columns * g.channels)
		g.transform(&w.images, 0, 0, g.channels, w)
		w.sums.resize(columns * g.rows())
		g.multiply(&w.sums, &g.filters, &w.images, g.rows(), columns)
		g.finish(&w.targets, &w.sums, columns, 0, g.outputs, w)
	}
}

// winogradImageJob transforms patches: panels of tiles by winogradDepth channels.
type winogradImageJob winogradConv

func (j *winogradImageJob) run(lo, hi int) {
	g := (*winogradConv)(j)
	w := takeWinogradWorker()
	defer winogradWorkers.Put(w)
	parts, planned := panels(g.channels, winogradDepth), -1
	for ; lo < hi; lo++ {
		if panel := lo / parts; panel != planned {
			planned = panel
			at := panel * g.tile.nr
			w.plan.make(&g.patches, g.first+at, min(g.tile.nr, g.count-at))
		}
		c := lo % parts * winogradDepth
		g.transform(&g.images, planned*g.tile.nr, c, min(c+winogradDepth, g.channels), w)
	}
}

// winogradOutputJob computes the results of blocks of outputs.
type winogradOutputJob winogradConv

func (j *winogradOutputJob) run(lo, hi int) {
	g := (*winogradConv)(j)
	w := takeWinogradWorker()
	defer winogradWorkers.Put(w)
	columns, mr := g.columns(g.count), g.tile.mr
	for ; lo < hi; lo++ {
		first := lo * winogradRows
		count := min(winogradRows, g.outputs-first)
		rows := panels(count, mr) * mr
		w.filters.resize(rows * g.channels)
		for i := 0; i < count; i += mr {
			g.filterPanel(&w.filters, i/mr, first+i, w)
		}
		w.sums.resize(rows * columns)
		g.multiply(&w.sums, &w.filters, &g.images, rows, columns)
		g.finish(&g.results, &w.sums, columns, first, count, w)
	}
}
