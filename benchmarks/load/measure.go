package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/internal/ptx"
)

// measure runs everything. The error is one without which nothing can be measured; what does not load is in the report.
func (o *options) measure(start starter) (*report, error) {
	files, err := ptx.Files(o.ptx)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no modules (*%s) in %q", ptx.Packed, o.ptx)
	}
	if err := os.MkdirAll(o.cache, 0o777); err != nil {
		return nil, err
	}
	held, err := os.ReadDir(o.cache)
	if err != nil {
		return nil, err
	}
	probe, err := start(o, nil)
	if err != nil {
		return nil, err
	}
	r := &report{Machine: machine.Here(), Device: probe.Name, Parallel: o.parallel, Cold: len(held) == 0, Start: probe.Context}
	for _, phase := range []func(starter, []string, *report){o.first, o.next, o.one} {
		phase(start, files, r)
		if err := r.save(o.json); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// first loads each module in a process of its own.
func (o *options) first(start starter, files []string, r *report) {
	begin := time.Now()
	for _, s := range o.each(start, files, "first", r) {
		m := s.Modules[0]
		all, longest := m.ms()
		r.Modules = append(r.Modules, &row{Name: m.Name, Bytes: m.Bytes, Count: m.Count, First: all, Longest: longest, Kernels: m.Kernels})
	}
	r.FirstAll = milliseconds(begin)
}

// next does it again, from the cache.
func (o *options) next(start starter, files []string, r *report) {
	var starts []float64
	begin := time.Now()
	for i, s := range o.each(start, files, "next", r) {
		r.Modules[i].Second, _ = s.Modules[0].ms()
		if s.Name != "" {
			starts = append(starts, s.Context)
		}
	}
	r.SecondAll = milliseconds(begin)
	if len(starts) > 0 {
		r.Start = timing.Median(starts)
	}
}

// one loads all modules in one process, from the cache.
func (o *options) one(start starter, files []string, r *report) {
	s := o.runChild(start, files)
	r.note("one", s)
	for _, m := range s.Modules {
		all, _ := m.ms()
		r.OneProcess += all
	}
	o.progress("one process: %d of %d modules, %.0f ms", len(s.Modules), len(files), r.OneProcess)
}

// each loads each file in a process of its own, several at a time. Each of what it returns has one module.
func (o *options) each(start starter, files []string, process string, r *report) []*started {
	all := make([]*started, len(files))
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(o.parallel, len(files)) {
		wait.Go(func() {
			for i := range next {
				all[i] = o.runChild(start, files[i:i+1])
				o.say(process, i, len(files), all[i].Modules[0])
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	wait.Wait()
	for _, s := range all {
		r.note(process, s)
	}
	return all
}

// runChild starts a process. What it returns has at least one module, and the failure of the process itself with its last one.
func (o *options) runChild(start starter, files []string) *started {
	s, err := start(o, files)
	if len(s.Modules) == 0 {
		s.Modules = []*module{{Name: ptx.Module(files[0])}}
	}
	if m := s.last(); err != nil {
		text := err.Error()
		if left := m.Count - len(m.Kernels) - len(m.Failures); left > 1 {
			text += fmt.Sprintf("; %d kernels were not loaded", left)
		}
		if left := len(files) - len(s.Modules); left > 0 {
			text += fmt.Sprintf("; %d modules were not loaded", left)
		}
		m.Failures = append(m.Failures, &failure{Module: m.Name, Kernel: m.loading, Error: text})
	}
	return s
}

// note keeps what failed in a process, unless the same kernel has failed in an earlier one.
func (r *report) note(process string, s *started) {
	for _, m := range s.Modules {
		for _, f := range m.Failures {
			f.Process = process
			same := func(g *failure) bool { return g.Module == f.Module && g.Kernel == f.Kernel }
			if !slices.ContainsFunc(r.Failures, same) {
				r.Failures = append(r.Failures, f)
			}
		}
	}
}

// say writes a module's row as soon as it is known.
func (o *options) say(process string, i, of int, m *module) {
	all, longest := m.ms()
	registers, local, spilling := (&row{Kernels: m.Kernels}).usage()
	o.progress("%s %d/%d %s: %d of %d kernels in %.1f ms, the longest %.1f; at most %d registers, %d bytes of local memory in %d; %d failed",
		process, i+1, of, m.Name, len(m.Kernels), m.Count, all, longest, registers, local, spilling, len(m.Failures))
	for _, f := range m.Failures {
		o.progress("FAILED: %s %s: %s", f.Module, f.Kernel, f.Error)
	}
}

func (o *options) progress(format string, values ...any) {
	o.talking.Lock()
	defer o.talking.Unlock()
	fmt.Fprintf(o.stderr, "load: "+format+"\n", values...)
}
