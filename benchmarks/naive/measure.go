package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

// Result is one cell: an allocator under a workload. A unit is a training step, or an allocation with its free.
type Result struct {
	Workload     string    `json:"workload"` // "training", or the name of the recorded program
	Allocator    string    `json:"allocator"`
	NsPerUnit    float64   `json:"ns_per_unit"`                // median of Runs; assumed driver time is part of it
	Runs         []float64 `json:"runs"`                       // in the order of measurement
	AssumedNs    float64   `json:"assumed_ns_per_unit"`        // what of NsPerUnit the driver is assumed to take; 0 if all is measured
	Units        int       `json:"units"`                      // of one measurement
	AllocsPer    float64   `json:"allocations_per_unit"`       // requests
	DriverPer    float64   `json:"driver_calls_per_unit"`      // segments taken from and given to the driver, and maps of pages
	PeakReserved int64     `json:"peak_reserved_bytes"`        // by the allocator's account; what a driver rounds up is not in it
	OOMs         int       `json:"ooms"`                       // requests without memory, in all passes
	LastLoss     float64   `json:"last_loss,omitempty"`        // of training
	Loop         string    `json:"loop,omitempty"`             // the language of the measuring loop (PyTorch)
	OverheadNs   float64   `json:"overhead_ns,omitempty"`      // of NsPerUnit, what the measuring loop itself takes (PyTorch)
	LeftOut      int       `json:"records_left_out,omitempty"` // uses on other streams that could not be replayed (PyTorch)

	assumedRuns []float64
}

// workload is what a subject is made to do.
type workload struct {
	name    string
	units   int
	repeats bool // if it is over too soon
	// start prepares it on a place: pass runs all units once, end frees everything.
	start func(p *place, r *Result) (pass func() error, end func() error, err error)
}

// training is the workload of so many steps.
func training(steps int) workload {
	return workload{name: "training", units: steps, start: func(p *place, r *Result) (func() error, func() error, error) {
		t, err := newTrainer(p.dev)
		if err != nil {
			return nil, nil, err
		}
		if err := t.steps(warmUp); err != nil {
			t.release()
			return nil, nil, err
		}
		pass := func() error {
			defer func() { r.LastLoss = t.loss }()
			return errors.Join(t.steps(steps), p.dev.Synchronize(context.Background()))
		}
		return pass, func() error { t.release(); return nil }, nil
	}}
}

// recorded is the workload of a recorded program.
func recorded(program program) workload {
	return workload{name: program.name, units: program.Pairs, repeats: true, start: func(p *place, r *Result) (func() error, func() error, error) {
		y, err := newPlayer(program, p)
		if err != nil {
			return nil, nil, err
		}
		if err := y.play(); err != nil {
			return nil, nil, errors.Join(err, y.close())
		}
		return y.play, func() error { r.OOMs = y.ooms; return y.close() }, nil
	}}
}

// measureAll measures every subject under every workload, the subjects in turn. What there is so far is written after each workload.
func (r *report) measureAll(o options, workloads []workload, subjects []subject) error {
	for _, w := range workloads {
		var row []*Result
		for _, s := range subjects {
			row = append(row, &Result{Workload: w.name, Allocator: s.name, Units: w.units})
		}
		for range o.runs {
			for i, s := range subjects {
				if err := measureOnce(o, w, s, row[i]); err != nil {
					return fmt.Errorf("%s, %s: %w", w.name, s.name, err)
				}
			}
		}
		for _, x := range row {
			x.NsPerUnit, x.AssumedNs = timing.Median(x.Runs), timing.Median(x.assumedRuns)
		}
		r.Results = append(r.Results, row...)
		if err := harness.WriteJSON(o.json, r); err != nil {
			return err
		}
	}
	return nil
}

// measureOnce adds one run to r. The garbage of the runs before is collected first, so that nobody pays for another's.
func measureOnce(o options, w workload, s subject, r *Result) (err error) {
	p, err := s.open(o.device, o.costs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	pass, end, err := w.start(p, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	runtime.GC()
	before, driver, begin := p.alloc.Stats(), p.driverTime(), time.Now()
	passes := 0
	for passes == 0 || w.repeats && time.Since(begin) < o.least {
		if err := pass(); err != nil {
			return err
		}
		passes++
	}
	took, after := time.Since(begin), p.alloc.Stats()
	added := p.driverTime() - driver
	units := float64(w.units * passes)
	r.Runs = append(r.Runs, float64((took+added).Nanoseconds())/units)
	r.assumedRuns = append(r.assumedRuns, float64(added.Nanoseconds())/units)
	r.AllocsPer = float64(after.Allocation.All.Allocated-before.Allocation.All.Allocated) / units
	r.DriverPer = float64(driverCalls(after)-driverCalls(before)) / units
	r.PeakReserved = max(r.PeakReserved, after.ReservedBytes.All.Peak)
	return nil
}

// driverCalls counts what was taken from the driver and given back.
func driverCalls(s memory.Stats) int64 { return s.NumDeviceAlloc + s.NumDeviceFree }

// measure runs everything that the options ask for.
func (o options) measure() (r *report, err error) {
	spec, err := device.ParseSpec(o.device)
	if err != nil {
		return nil, err
	}
	all, err := programs(o.traces, o.pairs)
	if err != nil {
		return nil, err
	}
	temporary, err := os.MkdirTemp("", "naive")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	one, err := singles(temporary, o.single, o.pairs)
	if err != nil {
		return nil, err
	}
	all = append(one, all...)
	var workloads []workload
	if o.steps > 0 {
		workloads = append(workloads, training(o.steps))
	}
	for _, p := range all {
		workloads = append(workloads, recorded(p))
	}
	if r, err = newReport(o, spec); err != nil {
		return nil, err
	}
	if err := r.measureAll(o, workloads, on(spec.Kind)); err != nil {
		return r, err
	}
	return r, r.addPyTorch(o, spec, all)
}
