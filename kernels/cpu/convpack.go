package cpu

// Packing for convolutions: panels as those of pack.go, of the kernel, of the image, and of the gradient.

func (g *convGemm[T]) packJobs() (jobs, grain int) {
	return g.left.panels() + g.right.panels(), 2
}

// pack packs panels: those of the left operand, then those of the right one.
func (g *convGemm[T]) pack(lo, hi int, s *scratch) {
	left := g.left.panels()
	for ; lo < hi; lo++ {
		switch {
		case lo < left && g.overPlaces:
			g.packLines(g.packedA, &g.left, lo, &g.gradient, g.i, s)
		case lo < left:
			g.packKernel(lo, s)
		case g.overPlaces:
			g.packLines(g.packedB, &g.right, lo-left, &g.image, g.j, s)
		default:
			g.packPlaces(lo - left)
		}
	}
}

// packKernel packs panel i of the kernel.
func (g *convGemm[T]) packKernel(i int, s *scratch) {
	width, k, size := g.left.wide(i), &g.kernels, g.access.size
	panel := g.packedA[g.left.at(i)*g.bk:][:width*g.bk]
	first := g.i + g.left.from(i)
	n := g.left.from(i+1) - g.left.from(i)
	high, wide := g.image.axis[0].Taps, g.image.axis[1].Taps
	if (wide == 1 || k.across == 1) && (high == 1 || k.down == wide*k.across) && k.channel == high*wide {
		a := matrix{offset(k.ptr, first*k.row+g.l, size), k.row, 1}
		if g.access.direct {
			packRows(panel, a, n, width, g.bk, size, g.all.pack.four)
		} else {
			packConverted(&g.access, panel, a, n, width, g.bk, matMulKernelsOf[T]().pack.four, s)
		}
	} else {
		channel, u, v := g.tap(g.l)
		for x := range g.bk {
			from := offset(k.ptr, first*k.row+channel*k.channel+u*k.down+v*k.across, size)
			g.access.load(panel[x*width:][:n], from, k.row)
			channel, u, v = g.nextTap(channel, u, v)
		}
	}
	clearBeyond(panel, n, width)
}

// tap is (channel, tap) number k: a step of the sum, or a column of the result.
func (g *convGemm[T]) tap(k int) (channel, u, v int) {
	high, wide := g.image.axis[0].Taps, g.image.axis[1].Taps
	return k / (high * wide), k / wide % high, k % wide
}

func (g *convGemm[T]) nextTap(channel, u, v int) (c, y, x int) {
	if v++; v < g.image.axis[1].Taps {
		return channel, u, v
	}
	if u++; u < g.image.axis[0].Taps {
		return channel, u, 0
	}
	return channel + 1, 0, 0
}

// packPlaces packs panel i of the image, whose columns are places: the places of one tap lie side by side.
func (g *convGemm[T]) packPlaces(i int) {
	width := g.kernel.nr
	panel := g.packedB[i*width*g.bk:][:width*g.bk]
	n := min(width, g.bn-i*width)
	at := g.image.grid.at(g.j + i*width)
	channel, u, v := g.tap(g.l)
	for len(panel) > 0 {
		g.image.read(panel[:n], channel, u, v, at)
		clear(panel[n:width])
		panel = panel[width:]
		channel, u, v = g.nextTap(channel, u, v)
	}
}

// packLines packs a panel whose steps are places: lines, each of a channel and tap, of which the block begins with one. Four lines at a time are
// read, and put side by side.
func (g *convGemm[T]) packLines(packed []T, rows *cut, i int, from *patch[T], block int, s *scratch) {
	width, n, first := rows.wide(i), rows.from(i+1)-rows.from(i), block+rows.from(i)
	panel := packed[rows.at(i)*g.bk:][:width*g.bk]
	at := from.grid.at(g.l)
	channel, u, v := first, 0, 0
	if from == &g.image {
		channel, u, v = g.tap(first)
	}
	const four = 4
	lines := scratchBuffer[T](s, 0, four*blockK)
	for i = 0; i < n; i += four {
		count := min(four, n-i)
		for r := range count {
			from.read(lines[r*blockK:][:g.bk], channel, u, v, at)
			if from == &g.image {
				channel, u, v = g.nextTap(channel, u, v)
			} else {
				channel++
			}
		}
		steps := 0
		if count == four && g.all.pack.four != nil {
			if steps = g.bk &^ 3; steps > 0 {
				g.all.pack.four(steps, &panel[i], width, &lines[0], blockK)
			}
		}
		for r := range count {
			if steps < g.bk {
				placeRow(panel[steps*width+i+r:], lines[r*blockK+steps:][:g.bk-steps], width)
			}
		}
	}
	clearBeyond(panel, n, width)
}
