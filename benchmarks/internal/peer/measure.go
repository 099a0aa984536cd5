// Package peer compares single calls of ours with the same calls of PyTorch: the same inputs on both sides, the same way of timing, the
// memory that a call takes, and how far the results are apart. torch/peer.py is its other half.
package peer

import (
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// hostBound is the share of a call's time that the host needs to issue it, from which on the device waits for the host.
const hostBound = 0.9

// warmUp is how many times as long as a run the calls last that do not count.
const warmUp = 10

// Measured is what was measured of a call.
type Measured struct {
	timing.Spread
	TFLOPS    float64 `json:"tflops"`
	Peak      *int64  `json:"peak_bytes,omitempty"` // allocated above what was there before the call; nil if nobody counts
	Host      float64 `json:"host_us,omitempty"`    // what the host takes to issue a call, on devices that do not wait for it
	HostBound bool    `json:"host_bound,omitempty"`
}

// newMeasured is what the seconds of the runs, and of the host, say of a call of so many floating-point operations.
func newMeasured(flops float64, seconds []float64, issued float64, peak *int64) Measured {
	m := Measured{Spread: timing.Of(seconds), Peak: peak, Host: 1e6 * issued}
	m.TFLOPS = flops / m.Microseconds / 1e6
	m.HostBound = m.Host >= hostBound*m.Microseconds
	return m
}

// Warm keeps the device busy for some durations: one that had nothing to do is slow at first.
func Warm(e tensor.Exec, duration time.Duration) error {
	x, err := tensor.Ones(e, tensor.Float32, 1<<16)
	if err != nil {
		return err
	}
	defer x.Release()
	_, err = timing.Each(e.Stream(), warmUp*duration, func() error {
		y, err := x.MulScalar(2)
		y.Release()
		return err
	})
	return err
}

// Measure measures f, a call of so many floating-point operations that leaves nothing allocated: some runs of calls for about
// duration, each with one wait at its end. f enqueues its work on e's stream.
func Measure(e tensor.Exec, runs int, duration time.Duration, flops float64, f func() error) (m Measured, err error) {
	seconds, err := timing.Runs(e.Stream(), runs, duration, f)
	if err != nil {
		return m, err
	}
	issued := 0.0
	if e.Device().ID().Kind == device.CUDA {
		n := max(2, min(50, int(duration.Seconds()/seconds[0])))
		if issued, err = timing.Issued(e.Stream(), n, f); err != nil {
			return m, err
		}
	}
	peak, err := peakOf(e, f)
	return newMeasured(flops, seconds, issued, peak), err
}

// peakOf is how much f allocates at its peak.
func peakOf(e tensor.Exec, f func() error) (*int64, error) {
	a, ok := e.Allocator().(interface{ ResetPeakStats() })
	if !ok {
		return nil, f()
	}
	before := e.Allocator().Stats().AllocatedBytes.All.Current
	a.ResetPeakStats()
	err := f()
	peak := e.Allocator().Stats().AllocatedBytes.All.Peak - before
	return &peak, err
}
