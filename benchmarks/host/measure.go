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

// outrun is by how much a run may take longer on the clock than the best one of its side for its processor time to count. Now and then the threads of a run share one
// processor although another is idle. It takes twice as long then, but less processor time where memory is what limits the threads together: that is a run of one thread.
const outrun = 1.25

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

// runTime is how long a run takes, about, and settleTime how long calls go before it that do not count. While the other side computes, this process sleeps. When it wakes,
// the thread with which Go's runtime watches over the others looks each 20 microseconds some fifty times, which takes 5 milliseconds here, and then ever more seldom: that
// is a quarter of the processor time of these milliseconds, and half a hundredth of that of a program that goes on.
const (
	runTime    = 4 * time.Millisecond
	settleTime = 8 * time.Millisecond
)

func (o *options) measure() (rows []row, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.threads))
	side, err := o.side()
	if err != nil {
		return nil, err
	}
	defer side.end()
	var peer *process
	if side.start != nil {
		if peer, err = side.start(); err != nil {
			return nil, err
		}
		defer peer.end()
	}
	err = harness.On("host", func(e tensor.Exec, _ device.Spec) error {
		for _, w := range cases() {
			if !o.only.MatchString(w.name) || peer != nil && !peer.has(w.name) {
				continue
			}
			r, err := o.measureCase(w, &scene{Exec: e}, peer)
			if err == nil && w.whole() {
				err = o.measurePeaks(&r, side)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			rows = append(rows, r)
		}
		return nil
	})
	return rows, err
}

// measureCase measures one case: in turn a run here and one of the other side.
func (o *options) measureCase(w workload, s *scene, peer *process) (row, error) {
	r := row{Case: w.name, Threads: o.threads}
	defer s.end()
	call, err := w.start(s)
	if err != nil {
		return r, err
	}
	if err = settle(call); err != nil {
		return r, err
	}
	one, err := timed(call, 1)
	if err != nil {
		return r, err
	}
	n := max(1, int(runTime.Seconds()/one.Wall))
	before := beforeRun(one.Wall)
	var our, their []times
	cpus := places(o.threads)
	for i := range o.runs {
		t, err := runHere(call, n, before, cpus, i)
		if err != nil {
			return r, err
		}
		our = append(our, t)
		if peer != nil {
			if t, err = peer.run(w.name, n, before, cpus, i); err != nil {
				return r, err
			}
			their = append(their, t)
		}
	}
	ours, theirs := best(our), best(their)
	per := 1e9 / float64(max(1, w.elements))
	r.Cistern, r.Peer = ours.Processor*per, theirs.Processor*per
	if peer != nil {
		r.Ratio, r.RatioWall = theirs.Processor/ours.Processor, theirs.Wall/ours.Wall
	}
	return r, nil
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
		fmt.Fprint(w, "case\tthreads\tcistern_ns\tpeer_ns\tratio\tratio_wall\t\n")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.2f\t%.2f\t\n", r.Case, r.Threads, r.Cistern, r.Peer, r.Ratio, r.RatioWall)
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
