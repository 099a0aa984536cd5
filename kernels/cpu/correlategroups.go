package cpu

// correlateGroupJob computes groups of slices, each with sums of its own.
type correlateGroupJob struct {
	of             *correlation
	slices, groups int
	sums           []float32 // of one group after the other
}

// inGroups computes the sums of slices in groups, which several processors share, and adds the groups' sums in their order.
func (c *correlation) inGroups(slices, groups int) {
	j, n := &c.groups, len(c.sums)
	j.of, j.slices, j.groups, j.sums = c, slices, groups, sized(j.sums, groups*n)
	clear(j.sums)
	work := correlateRows * c.units() * c.planes * c.lines * c.width * slices / groups
	c.split(groups, max(1, elementGrain/work), j)
	for g := range groups {
		addSlices(c.sums, c.sums, j.sums[g*n:][:n])
	}
	j.of = nil
}

func (j *correlateGroupJob) run(lo, hi int) {
	c := j.of
	p := correlations.Get().(*correlation)
	own, n := p.sums, len(c.sums)
	p.read, p.packed, p.turned, p.loop, p.rows, p.columns, p.serial = c.read, c.packed, c.turned, c.loop, c.rows, c.columns, true
	p.distance = noDistance
	p.inPlace, p.planes, p.lines, p.width = c.inPlace, c.planes, c.lines, c.width
	for g := lo; g < hi; g++ {
		p.sums = j.sums[g*n:][:n]
		p.add(g*j.slices/j.groups, (g+1)*j.slices/j.groups)
	}
	p.sums, p.call = own, correlateCall{} // the pool keeps no tensor's memory
	correlations.Put(p)
}
