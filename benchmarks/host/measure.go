package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// row is a case as it was measured. Figures are nanoseconds per element, or per call.
type row struct {
	Case      string  `json:"case"`
	Threads   int     `json:"threads"`
	Cistern   float64 `json:"cistern_ns"`
	Peer      float64 `json:"peer_ns,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`
	RatioWall float64 `json:"ratio_wall,omitempty"`

	// Of the medians of all runs, where those above are of the best.
	MedianRatio     float64 `json:"ratio_median,omitempty"`
	MedianRatioWall float64 `json:"ratio_median_wall,omitempty"`

	// The most memory that a process of its own has resident which does nothing but the case, in bytes. Of whole steps.
	CisternPeak int64 `json:"cistern_rss_bytes,omitempty"`
	PeerPeak    int64 `json:"peer_rss_bytes,omitempty"`
}

// scene is what a case computes with: the device, and tensors that it lets go of.
type scene struct {
	tensor.Exec
	kept []*tensor.Tensor
	ends []func()
}

// uniform are numbers of a range, kept until the case ends.
func (s *scene) uniform(from, to float64, shape ...int) (*tensor.Tensor, error) {
	x, err := tensor.Uniform(s.Exec, tensor.NewGenerator(1), from, to, tensor.Float32, shape...)
	s.kept = append(s.kept, x)
	return x, err
}

func (s *scene) end() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	for _, x := range s.kept {
		x.Release()
	}
}

func discard(x *tensor.Tensor, err error) error {
	x.Release()
	return err
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// times are those of a call: of the processor, and on the clock, in seconds.
type times struct {
	Processor, Wall float64
	Cases           []string // that the other side has, in the answer to the case without a name; none for all
}

// outrun is by how much a run may take longer on the clock than the best one of its side for its processor time to count. The threads of a run may share one
// processor although another is idle: PyTorch's do in every second run, when the first has been moved to where the other one sleeps. Such a run takes longer, but less
// processor time where memory is what limits two threads together: it is one of one thread.
const outrun = 1.1

// best is the lowest time on the clock, and the lowest processor time of the runs that take about as long.
func best(runs []times) (t times) {
	for _, r := range runs {
		if t.Wall == 0 || r.Wall < t.Wall {
			t.Wall = r.Wall
		}
	}
	for _, r := range runs {
		if r.Wall <= outrun*t.Wall && (t.Processor == 0 || r.Processor < t.Processor) {
			t.Processor = r.Processor
		}
	}
	return t
}

// median is that of the times on the clock, and of those of the processor.
func median(runs []times) times {
	middle := func(of func(times) float64) float64 {
		list := make([]float64, len(runs))
		for i, r := range runs {
			list[i] = of(r)
		}
		slices.Sort(list)
		return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
	}
	return times{Processor: middle(func(t times) float64 { return t.Processor }), Wall: middle(func(t times) float64 { return t.Wall })}
}

// runTime is how long a run takes, about, and settleTime how long calls go before it that do not count. While the other side computes, this process sleeps. When it wakes,
// the thread with which Go's runtime watches over the others looks each 20 microseconds some fifty times, which takes 5 milliseconds here, and then ever more seldom: that
// is a quarter of the processor time of these milliseconds, and half a hundredth of that of a program that goes on.
const (
	runTime    = 4 * time.Millisecond
	settleTime = 8 * time.Millisecond
)

// passes is how many times all cases are measured, by a part of the runs each: with a new process of the other side, and with memory from the system anew on both. What memory
// a process has may make it half as fast or twice as fast as the next one where it waits for memory, as long as it lives.
const passes = 3

func (o *options) measure() (rows []row, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.threads))
	side, err := o.side()
	if err != nil {
		return nil, err
	}
	defer side.end()
	var all []*caseRuns
	n := min(passes, o.runs)
	for pass := 0; pass < n && err == nil; pass++ {
		all, err = o.pass(side, all, o.runs*pass/n, o.runs*(pass+1)/n)
	}
	for _, c := range all { // of what was measured before an error, too
		if len(c.our) == 0 || side.start != nil && len(c.their) == 0 {
			continue
		}
		r := c.row(o.threads)
		if c.whole() && err == nil {
			if err = o.measurePeaks(&r, side); err != nil {
				err = fmt.Errorf("%s: %w", c.name, err)
			}
		}
		rows = append(rows, r)
	}
	return rows, err
}

// caseRuns are the runs of a case so far, on both sides.
type caseRuns struct {
	workload
	our, their []times
}

// pass measures runs from..to-1 of all cases.
func (o *options) pass(side otherSide, all []*caseRuns, from, to int) ([]*caseRuns, error) {
	var peer *process
	if side.start != nil {
		var err error
		if peer, err = side.start(); err != nil {
			return all, err
		}
		defer peer.end()
	}
	if from == 0 {
		for _, w := range cases() {
			if o.only.MatchString(w.name) && (peer == nil || peer.has(w.name)) {
				all = append(all, &caseRuns{workload: w})
			}
		}
	}
	return all, harness.On("host", func(e tensor.Exec, _ device.Spec) error {
		for _, c := range all {
			if err := c.measure(&scene{Exec: e}, peer, from, to); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		return nil
	})
}

// measure measures runs from..to-1: in turn one here and one of the other side.
func (c *caseRuns) measure(s *scene, peer *process, from, to int) error {
	defer s.end()
	call, err := c.start(s)
	if err != nil {
		return err
	}
	if err = settle(call); err != nil {
		return err
	}
	one, err := timed(call, 1)
	if err != nil {
		return err
	}
	n := max(1, int(runTime.Seconds()/one.Wall))
	before := beforeRun(one.Wall)
	cpus := places()
	for i := from; i < to; i++ {
		t, err := runHere(call, n, before, cpus, i)
		if err != nil {
			return err
		}
		c.our = append(c.our, t)
		if peer != nil {
			if t, err = peer.run(c.name, n, before, cpus, i); err != nil {
				return err
			}
			c.their = append(c.their, t)
		}
	}
	return nil
}

// row is what the runs say.
func (c *caseRuns) row(threads int) row {
	ours, theirs := best(c.our), best(c.their)
	per := 1e9 / float64(max(1, c.elements))
	r := row{Case: c.name, Threads: threads, Cistern: ours.Processor * per, Peer: theirs.Processor * per}
	if len(c.their) != 0 {
		our, their := median(c.our), median(c.their)
		r.Ratio, r.RatioWall = theirs.Processor/ours.Processor, theirs.Wall/ours.Wall
		r.MedianRatio, r.MedianRatioWall = their.Processor/our.Processor, their.Wall/our.Wall
	}
	return r
}

// beforeRun is how many calls go before a run that do not count, of a call that takes so many seconds: none where a call is long beside settleTime.
func beforeRun(call float64) int {
	if call > 4*settleTime.Seconds() {
		return 0
	}
	return int(math.Ceil(settleTime.Seconds() / call))
}

// runHere is the i-th run of this side, of n calls.
func runHere(call func() error, n, before int, cpus []int, i int) (times, error) {
	if err := begin(cpus, i); err != nil {
		return times{}, err
	}
	for range before {
		if err := call(); err != nil {
			return times{}, err
		}
	}
	return timed(call, n)
}

// settle runs calls for a while.
func settle(call func() error) error {
	for begin := time.Now(); time.Since(begin) < settleTime; {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// timed is what one of n calls takes.
func timed(call func() error, n int) (t times, err error) {
	var processor stopwatch
	processor.start()
	begin := time.Now()
	for range n {
		if err := call(); err != nil {
			return t, err
		}
	}
	wall := time.Since(begin)
	return times{Processor: processor.read().Seconds() / float64(n), Wall: wall.Seconds() / float64(n)}, nil
}

// write prints the tables: the cases with those first that are farthest behind, and the memory of whole steps.
func write(w io.Writer, rows []row) error {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.Ratio, b.Ratio) })
	err := harness.Table(w, func(w io.Writer) {
		fmt.Fprint(w, "case\tthreads\tcistern_ns\tpeer_ns\tratio\tratio_wall\tmedian\tmedian_wall\t\n")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", r.Case, r.Threads, r.Cistern, r.Peer, r.Ratio, r.RatioWall, r.MedianRatio, r.MedianRatioWall)
		}
	})
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.CisternPeak == 0 })
	if err != nil || len(rows) == 0 {
		return err
	}
	if _, err := fmt.Fprint(w, "\nMost memory resident, MB of 1e6 bytes:\n\n"); err != nil {
		return err
	}
	return harness.Table(w, func(w io.Writer) {
		fmt.Fprint(w, "case\tcistern\tpeer\t\n")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t\n", r.Case, float64(r.CisternPeak)/1e6, float64(r.PeerPeak)/1e6)
		}
	})
}
