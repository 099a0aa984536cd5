package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
)

// starter runs a process that loads files.
type starter func(o *options, files []string) (*started, error)

// startProcess starts this program anew.
func startProcess(o *options, files []string) (*started, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{"-child", "-device", o.device}, files...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "CUDA_CACHE_PATH="+o.cache, "CUDA_CACHE_MAXSIZE=4294967296", "CUDA_CACHE_DISABLE=0")
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	s := &started{}
	return s, json.Unmarshal(stdout.Bytes(), s)
}

// measure runs everything.
func (o *options) measure(start starter) (*report, error) {
	files, err := filepath.Glob(filepath.Join(o.ptx, "*.ptx.gz"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no modules (*.ptx.gz) in %q", o.ptx)
	}
	if err := os.MkdirAll(o.cache, 0o777); err != nil {
		return nil, err
	}
	held, err := os.ReadDir(o.cache)
	if err != nil {
		return nil, err
	}
	r := &report{Machine: machine.Here(), Parallel: o.parallel, Cold: len(held) == 0}
	begin := time.Now()
	first, err := o.each(start, files)
	if err != nil {
		return nil, err
	}
	r.FirstAll = milliseconds(begin)
	begin = time.Now()
	second, err := o.each(start, files)
	if err != nil {
		return nil, err
	}
	r.SecondAll = milliseconds(begin)
	one, err := start(o, files)
	if err != nil {
		return nil, err
	}
	r.add(first, second, one)
	return r, nil
}

// each loads each file in a process of its own, several at a time.
func (o *options) each(start starter, files []string) ([]*started, error) {
	all, errs := make([]*started, len(files)), make([]error, len(files))
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(o.parallel, len(files)) {
		wait.Go(func() {
			for i := range next {
				all[i], errs[i] = start(o, files[i:i+1])
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	wait.Wait()
	return all, errors.Join(errs...)
}

// add puts the figures of all processes together.
func (r *report) add(first, second []*started, one *started) {
	var starts []float64
	for i, s := range first {
		m := s.Modules[0]
		r.Modules = append(r.Modules, &row{Name: m.Name, Bytes: m.Bytes, Kernels: m.Kernels, First: m.Ms, Longest: m.Longest, Second: second[i].Modules[0].Ms})
		starts = append(starts, second[i].Context)
	}
	r.Device, r.Start = one.Name, timing.Median(starts)
	for _, m := range one.Modules {
		r.OneProcess += m.Ms
	}
}
