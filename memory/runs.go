package memory

import (
	"slices"
	"sort"
)

// run is a part of a range of addresses, in bytes from its beginning.
type run struct{ from, to uint64 }

func (r run) size() uint64 { return r.to - r.from }

// pages are the whole pages in it; of none the size is 0.
func (r run) pages(page uint64) run {
	from := roundUp(r.from, page)
	return run{from, max(from, r.to/page*page)}
}

// runs are the parts of a range that have memory: by address, and no two of them touch. The zero value is none.
type runs struct {
	list  []run
	bytes uint64 // of all
	head  uint64 // how much has memory from the beginning on
}

// after is the index of the first run that ends behind an offset.
func (s *runs) after(at uint64) int {
	return sort.Search(len(s.list), func(i int) bool { return s.list[i].to > at })
}

// has reports whether all from one offset to another has memory.
func (s *runs) has(from, to uint64) bool {
	if to <= s.head {
		return true
	}
	i := s.after(from)
	return i < len(s.list) && s.list[i].from <= from && to <= s.list[i].to
}

// lacks are the parts from one offset to another that have none.
func (s *runs) lacks(from, to uint64) (list []run) {
	for i := s.after(from); from < to; i++ {
		next := run{to, to}
		if i < len(s.list) {
			next = s.list[i]
		}
		if from < next.from {
			list = append(list, run{from, min(next.from, to)})
		}
		from = max(from, next.to)
	}
	return list
}

// add gives memory to a part that has none.
func (s *runs) add(r run) {
	if r.from == r.to {
		return
	}
	s.bytes += r.size()
	i := s.after(r.from)
	first, last := i, i
	if i > 0 && s.list[i-1].to == r.from {
		first--
		r.from = s.list[first].from
	}
	if i < len(s.list) && s.list[i].from == r.to {
		r.to = s.list[i].to
		last++
	}
	s.list = slices.Replace(s.list, first, last, r)
	s.measure()
}

// remove takes the memory of a part that has it.
func (s *runs) remove(r run) {
	if r.from == r.to {
		return
	}
	s.bytes -= r.size()
	i := s.after(r.from)
	old := s.list[i]
	var rest []run
	for _, x := range []run{{old.from, r.from}, {r.to, old.to}} {
		if x.from < x.to {
			rest = append(rest, x)
		}
	}
	s.list = slices.Replace(s.list, i, i+1, rest...)
	s.measure()
}

// measure finds the head again.
func (s *runs) measure() {
	s.head = 0
	if len(s.list) != 0 && s.list[0].from == 0 {
		s.head = s.list[0].to
	}
}
