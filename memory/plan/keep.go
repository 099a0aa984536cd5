package plan

import (
	"maps"
	"slices"
)

// checkKept says what is wrong with the offsets that buffers have already.
func (p Problem) checkKept(kept map[int]uint64) error {
	if len(kept) == 0 {
		return nil
	}
	index := slices.Sorted(maps.Keys(kept))
	if last := index[len(index)-1]; index[0] < 0 || last >= len(p.Buffers) {
		return &Error{Kind: WrongCount, Buffer: -1, Other: -1, Offsets: max(last+1, len(kept)), Buffers: len(p.Buffers), Cycle: p.Cycle}
	}
	part, offsets := Problem{Cycle: p.Cycle}, []uint64(nil)
	for _, i := range index {
		if b := p.Buffers[i]; kept[i] > maxTotal-b.Size { // so that what is placed above them ends below 2^64
			return &Error{Kind: KeptTooHigh, Buffer: i, Other: -1, A: b, OffsetA: kept[i], Cycle: p.Cycle}
		}
		part.Buffers, offsets = append(part.Buffers, p.Buffers[i]), append(offsets, kept[i])
	}
	err := part.Check(offsets)
	if e, ok := err.(*Error); ok {
		for _, i := range []*int{&e.Buffer, &e.Other} {
			if *i >= 0 {
				*i = index[*i]
			}
		}
	}
	return err
}

// keep gives the jobs their offsets that have some already.
func (t *task) keep(kept map[int]uint64) {
	if len(kept) == 0 {
		return
	}
	for i := range t.jobs {
		j := &t.jobs[i]
		if j.at, j.kept = kept[j.id]; j.kept {
			t.kept++
			t.lower = max(t.lower, j.at+j.size)
		}
	}
}
