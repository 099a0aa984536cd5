package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"

	metered "github.com/cistern-ml/cistern/internal/sections"
)

// job is work on the range 0..n-1 that may be cut anywhere: run is called for disjoint ranges that together are the whole
// range, from several goroutines at once. No result may depend on where the cuts are.
type job interface {
	run(lo, hi int)
}

// split runs j on 0..n-1, in pieces of at least grain, on up to GOMAXPROCS goroutines, the calling one included. Work of
// one piece runs on the caller alone, without a heap allocation.
//
// The caller does not wait for a helper that has not begun: on a busy machine it does all the work itself. A helper that is done
// looks for the next section for a while, and then ends: it takes some 50 microseconds for a new goroutine, or a parked one, to run
// on another processor, in which a helper that looks has done half the work of most operations; and nothing stays behind when a
// program stops using tensors. How long it looks depends on what looking has been worth: see outlook.
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
	if m := metered.Watched(); m != nil {
		m.Run(panels(n, grain), func() { j.run(0, n) })
		return
	}
	// Four pieces a worker or more even out workers that are late, without making pieces smaller than the grain.
	s := sections.Get().(*section)
	s.job, s.n = j, n
	s.piece = max(grain, n/(4*workers))
	s.next.Store(0)
	s.ended.Store(0)
	s.seats.Store(int32(workers - 1)) // whoever takes one sees what was set before
	s.call(workers - 1)
	s.work()
	s.wait(workers - 1)
	s.job = nil
	sections.Put(s)
}

// section is one parallel section: a range whose pieces are handed out in order. Helpers that come late to one that is over may find
// that it is another by then: they help that one, if it has a seat.
type section struct {
	job   job
	n     int
	piece int
	next  atomic.Int64  // start of the next piece
	seats atomic.Int32  // for helpers that have not come yet
	ended atomic.Int32  // helpers that have come and are done, less, once the caller waits, those that came
	last  chan struct{} // from the helper that the caller waits for
}

var (
	sections = sync.Pool{New: func() any { return &section{last: make(chan struct{}, 1)} }}

	latest  atomic.Pointer[section] // for helpers that look for work
	looking atomic.Int32            // how many do
)

// call lets helpers that look for work know of the section, and starts others for the seats that are left.
func (s *section) call(seats int) {
	pauses.end()
	if n := int(looking.Load()); n > 0 {
		if old := latest.Load(); (old == nil || old.seats.Load() == 0) && latest.CompareAndSwap(old, s) {
			seats -= n
		}
	}
	for range seats {
		go s.help()
	}
}

// help works in the section, and then in those that follow it at once.
func (s *section) help() {
	for s != nil {
		if s.takeSeat() {
			s.work()
			s.leave()
		}
		s = nextSection()
	}
}

func (s *section) takeSeat() bool {
	for {
		n := s.seats.Load()
		if n == 0 {
			return false
		}
		if s.seats.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// leave is the last that a helper does with the section, which may begin anew afterwards.
func (s *section) leave() {
	if s.ended.Add(1) == 0 {
		s.last <- struct{}{}
	}
}

// wait takes the seats away that are left, of those that there were, and waits for helpers that had taken one.
func (s *section) wait(seats int) {
	came := int32(seats) - s.seats.Swap(0)
	if s.ended.Add(-came) == 0 {
		return
	}
	for range 1000 { // some 50 microseconds: helpers have one piece left at most
		select {
		case <-s.last:
			return
		default:
			pause()
		}
	}
	<-s.last
}

// nextSection looks for a section with a free seat. There are no more lookers than processors beside the caller's, and they make way for
// other goroutines.
func nextSection() *section {
	defer looking.Add(-1)
	if int(looking.Add(1)) >= runtime.GOMAXPROCS(0) {
		return nil
	}
	for begin, patience := pauses.begin(), pauses.patience(); ; {
		for range 64 {
			if s := latest.Load(); s != nil && s.seats.Load() > 0 {
				return s
			}
			pause()
		}
		if clock()-begin > patience {
			return nil
		}
		runtime.Gosched()
	}
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

// InPieces calls f for ranges that together are 0..n-1, each a number of whole pieces but for the end, from several goroutines at once if
// there is enough to do. It returns the first error.
func InPieces(n, piece int, f func(lo, hi int) error) error {
	j := &piecesJob{n: n, piece: piece, f: f}
	split((n+piece-1)/piece, max(1, elementGrain/piece), j)
	return j.err
}

// piecesJob is a job over pieces.
type piecesJob struct {
	n, piece int
	f        func(lo, hi int) error
	failed   sync.Once
	err      error
}

func (j *piecesJob) run(lo, hi int) {
	if err := j.f(lo*j.piece, min(hi*j.piece, j.n)); err != nil {
		j.failed.Do(func() { j.err = err })
	}
}
