package parallel

import ()

// Which parameters are in which bucket, and the order in which buckets are reduced: a guess at first, and then that in which backward has come to them.

// learn takes the order in which backward has finished the gradients for the passes that come: rank 0's, on all ranks. It is done once; and not where
// parameters may be unused, because they have no place in it.
func (d *DataParallel) learn() error {
	if d.learned || d.set.unused {
		return nil
	}
	d.learned = true
	if len(d.buckets) == 1 {
		return nil
	}
	index := map[*param]int64{}
	for i, q := range d.params {
		index[q] = int64(i)
	}
	own := make([]int64, 0, len(d.params))
	for _, q := range d.completed {
		own = append(own, index[q])
	}
	if len(own) != len(d.params) { // parameters that earlier passes alone have used
		own = own[:0]
		for _, i := range reversed(len(d.params)) {
			own = append(own, int64(i))
		}
	}
	order, err := d.broadcastNumbers("broadcast of the order of buckets", own)
	if err != nil {
		return err
	}
	if !d.exec.Computes() { // a simulated device has no numbers: all ranks are as this one
		order = own
	}
	return d.rearrange(order)
}

// rearrange makes the buckets anew in an order of the parameters; with ZeRO, where parameters have their places, it changes the order in which they are reduced.
func (d *DataParallel) rearrange(order []int64) error {
	ints, seen := make([]int, len(order)), map[int]bool{}
	for i, v := range order {
		if ints[i] = int(v); v < 0 || int(v) >= len(d.params) || seen[int(v)] {
			return d.mistake("broadcast of the order of buckets", "rank 0 has sent parameter %d at place %d", v, i)
		}
		seen[ints[i]] = true
	}
	d.order = ints
	if d.set.stage == 0 {
		d.bucketBy(ints)
		return nil
	}
	left := map[*bucket]int{}
	d.launch = d.launch[:0]
	for _, i := range ints {
		b := d.params[i].bucket
		if left[b]++; left[b] == len(b.params) {
			d.launch = append(d.launch, b)
		}
	}
	return nil
}

// bucketBy makes the buckets of ZeRO 0 in an order of the parameters.
func (d *DataParallel) bucketBy(order []int) {
	d.setBuckets(bucketed(d.entries(), order, d.set.first, d.set.rest, false))
}

// setBuckets makes the buckets of a layout.
func (d *DataParallel) setBuckets(flats []flat) {
	d.buckets = nil
	for i, f := range flats {
		b := &bucket{flat: f, number: i, pending: len(f.spans)}
		for _, s := range f.spans {
			q := d.params[s.entry]
			q.bucket, q.offset = b, s.offset
			b.params = append(b.params, q)
		}
		d.buckets = append(d.buckets, b)
	}
	d.launch = append([]*bucket(nil), d.buckets...)
}

// entries is what the layout needs to know of the parameters.
func (d *DataParallel) entries() []entry {
	if d.layout != nil {
		return d.layout
	}
	all := make([]entry, len(d.named))
	for i, n := range d.named {
		all[i] = entry{name: n.Name, dtype: n.Parameter.Tensor().DType(), count: n.Parameter.Len()}
	}
	return all
}

// arrange lays the parameters out.
func (d *DataParallel) arrange() error {
	for _, n := range d.named {
		d.params = append(d.params, &param{name: n.Name, p: n.Parameter})
	}
	if err := d.checkUnits("Data"); err != nil {
		return err
	}
	switch all := reversed(len(d.params)); d.set.stage {
	case 0:
		d.bucketBy(all)
		return nil
	case 3:
		return d.arrangeUnits()
	default:
		d.setBuckets(bucketed(d.entries(), all, d.set.first, d.set.rest, true))
	}
	for _, b := range d.buckets {
		if err := d.flatten(b); err != nil {
			return err
		}
		if err := d.cut(b); err != nil {
			return err
		}
	}
	return d.mayShard("Data", d.flats(), d.entries(), d.comm.Size())
}
