package cpu

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ranges records the pieces of a split.
type ranges struct {
	sync.Mutex
	seen   []int // how often each element was visited
	pieces [][2]int
}

func (r *ranges) run(lo, hi int) {
	r.Lock()
	defer r.Unlock()
	r.pieces = append(r.pieces, [2]int{lo, hi})
	for i := lo; i < hi; i++ {
		r.seen[i]++
	}
}

func TestSplit_VisitsEachElementOnceInPiecesOfAtLeastTheGrain(t *testing.T) {
	for _, procs := range []int{1, 2, 5} {
		for _, n := range []int{0, 1, 10, 99, 100, 101, 1000, 12345} {
			for _, grain := range []int{1, 7, 100} {
				r := &ranges{seen: make([]int, n)}
				workers(procs, func() { split(n, grain, r) })
				for i, s := range r.seen {
					require.Equal(t, 1, s, "element %d of %d", i, n)
				}
				for _, p := range r.pieces {
					require.True(t, p[1]-p[0] >= grain || p[1] == n, "piece %v of %d with grain %d", p, n, grain)
				}
			}
		}
	}
}

func TestSplit_SmallWorkStaysOnTheCaller(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector changes what is allocated")
	}
	r := &ranges{seen: make([]int, 100)}
	workers(8, func() { split(100, 100, r) })
	require.Equal(t, [][2]int{{0, 100}}, r.pieces)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		r.pieces = r.pieces[:0]
		split(100, 100, r)
	}))
}

func TestSplit_JobsMaySplitAgain(t *testing.T) {
	outer := make([]*ranges, 20)
	for i := range outer {
		outer[i] = &ranges{seen: make([]int, 50)}
	}
	workers(4, func() { split(len(outer), 1, nested(outer)) })
	for _, r := range outer {
		for _, s := range r.seen {
			require.Equal(t, 1, s)
		}
	}
}

type nested []*ranges

func (n nested) run(lo, hi int) {
	for _, r := range n[lo:hi] {
		split(len(r.seen), 5, r)
	}
}

// Sections follow one another while helpers of those before still look for work, from several goroutines at once.
func TestSplit_SectionsThatFollowAtOnce(t *testing.T) {
	workers(4, func() {
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range 300 {
					r := &ranges{seen: make([]int, 64)}
					split(len(r.seen), 1, r)
					for _, s := range r.seen {
						if s != 1 {
							t.Error("an element was not visited once")
							return
						}
					}
				}
			})
		}
		all.Wait()
	})
}

// Nothing stays behind when there is no more work.
func TestSplit_HelpersEnd(t *testing.T) {
	workers(4, func() { split(64, 1, &ranges{seen: make([]int, 64)}) })
	require.Eventually(t, func() bool { return looking.Load() == 0 }, 10*time.Second, time.Millisecond)
}

// BenchmarkSplit is the cost of a section of two pieces with nothing in them: one after the other, while the helper looks for work, and seldom, when there is none.
func BenchmarkSplit(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	b.Run("at once", func(b *testing.B) {
		for b.Loop() {
			split(2, 1, empty{})
		}
	})
	b.Run("seldom", func(b *testing.B) {
		var took time.Duration
		for b.Loop() {
			for begin := time.Now(); time.Since(begin) < 200*time.Microsecond; {
				pause()
			}
			begin := time.Now()
			split(2, 1, empty{})
			took += time.Since(begin)
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/section")
	})
}

type empty struct{}

func (empty) run(_, _ int) {}
