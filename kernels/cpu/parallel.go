package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// job is work on the range 0..n-1 that may be cut anywhere: run is called for disjoint ranges that together are the whole
// range, from several goroutines at once. No result may depend on where the cuts are.
type job interface {
	run(lo, hi int)
}

// split runs j on 0..n-1, in pieces of at least grain, on up to GOMAXPROCS goroutines, the calling one included. Work of
// one piece runs on the caller alone, without a heap allocation.
//
// The goroutines are started for each call: a goroutine costs less than a microsecond, no more than waking a parked worker,
// and nothing stays behind when a program stops using tensors.
func split(n, grain int, j job) {
	if n <= 0 {
		return
	}
	workers := 1
	if n > grain {
		workers = min(runtime.GOMAXPROCS(0), (n+grain-1)/grain)
	}
	if workers == 1 {
		j.run(0, n)
		return
	}
	// Four pieces a worker even out workers that are late, without making pieces smaller than the grain.
	s := sections.Get().(*section)
	s.job, s.n = j, n
	s.piece = max(grain, (n+4*workers-1)/(4*workers))
	s.next.Store(0)
	s.done.Add(workers - 1)
	for range workers - 1 {
		go s.help()
	}
	s.work()
	s.done.Wait()
	s.job = nil
	sections.Put(s)
}

// section is one parallel section: a range whose pieces are handed out in order.
type section struct {
	job   job
	n     int
	piece int
	next  atomic.Int64 // start of the next piece
	done  sync.WaitGroup
}

var sections = sync.Pool{New: func() any { return new(section) }}

func (s *section) help() {
	defer s.done.Done()
	s.work()
}

func (s *section) work() {
	for {
		lo := int(s.next.Add(int64(s.piece))) - s.piece
		if lo >= s.n {
			return
		}
		s.job.run(lo, min(lo+s.piece, s.n))
	}
}
