package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// step is one thing to run.
type step struct {
	name    string
	about   string
	reserve time.Duration // kept for it, whatever the steps before it do
	most    time.Duration // what it may take if there is more
	run     func(r *runner, ctx context.Context, s *step, limit time.Duration)
}

// plan is the steps to run, in their order.
type plan []*step

// call is a list of steps that fit into eight minutes, all their reserves together.
type call struct {
	name  string
	steps []string
}

// calls go from what tells most about a GPU that nothing has run on to what tells least.
var calls = []call{
	{"one", []string{"facts", "smoke", "load", "test-device_cuda", "test-memory", "test-kernels_cuda", "test-tensor", "test-autograd", "test-amp",
		"gemm", "gpt", "profile"}},
	{"two", []string{"facts", "train", "train-small", "attention", "conv"}},
	{"three", []string{"facts", "naive", "bandwidth", "launch", "sanitizer-memcheck", "sanitizer-racecheck", "sanitizer-synccheck",
		"sanitizer-initcheck", "ncu-gemm", "ncu-bandwidth"}},
}

// planFor is the steps of the given names, those of calls unfolded. Each runs once, where it is named first.
func planFor(names []string) (p plan, err error) {
	for _, name := range names {
		list := []string{name}
		if i := slices.IndexFunc(calls, func(c call) bool { return c.name == name }); i >= 0 {
			list = calls[i].steps
		}
		for _, name := range list {
			s := find(name)
			if s == nil {
				return nil, fmt.Errorf("there is no step or call %q; -h has the list", name)
			}
			if !slices.Contains(p, s) {
				p = append(p, s)
			}
		}
	}
	return p, nil
}

func find(name string) *step {
	for _, s := range steps {
		if s.name == name {
			return s
		}
	}
	return nil
}

// limit is what step i may take if so much is left: what is not reserved for those behind it, at least its own reserve and at most
// what it can use. If the time is too short for all, the first ones get theirs.
func (p plan) limit(i int, left time.Duration) time.Duration {
	free := left
	for _, s := range p[i+1:] {
		free -= s.reserve
	}
	return max(0, min(max(free, p[i].reserve), p[i].most, left))
}

// reserved is the sum of all reserves.
func (p plan) reserved() (sum time.Duration) {
	for _, s := range p {
		sum += s.reserve
	}
	return sum
}

// print prints the steps, with what they may take if all those before take all they may.
func (p plan) print(w io.Writer, total time.Duration) {
	left := total
	fmt.Fprintf(w, "%-22s %8s %8s %8s\n", "step", "reserved", "at most", "limit")
	for i, s := range p {
		limit := p.limit(i, left)
		fmt.Fprintf(w, "%-22s %6.0f s %6.0f s %6.0f s\n", s.name, s.reserve.Seconds(), s.most.Seconds(), limit.Seconds())
		left -= limit
	}
	fmt.Fprintf(w, "%-22s %6.0f s of %.0f s\n", "all", p.reserved().Seconds(), total.Seconds())
}
