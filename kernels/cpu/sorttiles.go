package cpu

import "runtime"

// inTiles sorts one row after the other with all workers.
func (s *sorting[T, E]) inTiles() {
	m := s.take()
	var w walk
	w.seek(&s.loop, 0)
	for range s.loop.Total {
		s.load(&w, m)
		s.row, s.span = m, 0
		s.tile = max(sortTile, (s.columns+2*runtime.GOMAXPROCS(0)-1)/(2*runtime.GOMAXPROCS(0)))
		tiles := (s.columns + s.tile - 1) / s.tile
		split(tiles, 1, s)
		for s.span = 1; s.span < tiles; s.span *= 2 {
			split((tiles+2*s.span-1)/(2*s.span), 1, s)
			m.from, m.to = m.to, m.from
		}
		s.row = nil
		s.store(&w, m, m.from)
		w.skip(1)
	}
	s.memory.Put(m)
}

// runTile sorts tile i, or merges the ith pair of what span tiles have become.
func (s *sorting[T, E]) runTile(i int) {
	if s.span == 0 {
		s.sortPart(s.row, i*s.tile, min((i+1)*s.tile, s.columns))
		return
	}
	lo := 2 * i * s.span * s.tile
	middle := min(lo+s.span*s.tile, s.columns)
	hi := min(middle+s.span*s.tile, s.columns)
	a, b := s.row.from[lo:min(middle, lo+s.keep)], s.row.from[middle:min(hi, middle+s.keep)]
	for k := range s.row.to[lo:min(hi, lo+s.keep)] {
		if len(b) == 0 || len(a) > 0 && s.less(a[0], b[0]) {
			s.row.to[lo+k], a = a[0], a[1:]
		} else {
			s.row.to[lo+k], b = b[0], b[1:]
		}
	}
}
