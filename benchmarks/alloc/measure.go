package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Result is one cell: a subject under a workload.
type Result struct {
	Workload    string    `json:"workload"`
	Threads     int       `json:"threads"`
	Subject     string    `json:"subject"`
	NsPerPair   float64   `json:"ns_per_pair"`            // median of Runs
	Runs        []float64 `json:"runs"`                   // in the order of measurement
	DriverBytes uint64    `json:"driver_bytes,omitempty"` // taken from the driver in all; not known for real memory
}

// cell is a result under way.
type cell struct {
	workload workload
	instance instance
	times    int // how often the workload is repeated in a measurement
	result   *Result
}

// measureAll measures every subject under every workload. Each run goes through all of them, so that none has the quiet
// minute of the machine for itself.
func measureAll(workloads []workload, subjects []subject, runs int, duration time.Duration) (results []*Result, err error) {
	var cells []*cell
	defer func() {
		for _, c := range cells {
			err = errors.Join(err, c.instance.close())
		}
	}()
	for _, w := range workloads {
		for _, s := range subjects {
			i, err := s.open(w)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", w.name, s.name, err)
			}
			r := &Result{Workload: w.name, Threads: w.threads, Subject: s.name}
			results = append(results, r)
			cells = append(cells, &cell{workload: w, instance: i, result: r})
		}
	}
	for range runs {
		for _, c := range cells {
			if err := c.measure(duration); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", c.result.Workload, c.result.Subject, err)
			}
		}
	}
	for _, c := range cells {
		c.result.NsPerPair = median(c.result.Runs)
		c.result.DriverBytes = c.instance.driverBytes()
	}
	return results, nil
}

// measure adds one run. The garbage of the runs before is collected first, so that nobody pays for another's.
func (c *cell) measure(duration time.Duration) error {
	runtime.GC()
	if c.times == 0 {
		if err := c.calibrate(duration); err != nil {
			return err
		}
	}
	took, err := c.instance.run(c.times)
	if err != nil {
		return err
	}
	c.result.Runs = append(c.result.Runs, float64(took.Nanoseconds())/float64(c.times)/float64(c.workload.pairs))
	return nil
}

// calibrate finds out how many repetitions take about as long as wanted.
func (c *cell) calibrate(duration time.Duration) error {
	for n := 1; ; n *= 4 {
		took, err := c.instance.run(n)
		if err != nil {
			return err
		}
		if took >= duration/8 {
			c.times = max(1, int(float64(n)*float64(duration)/float64(took)))
			return nil
		}
	}
}

// median is the middle value, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
