// Package timing measures how long work on a device takes, from the host: many calls one behind the other, and one wait.
package timing

import (
	"context"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/device"
)

// most is how many calls one measurement makes at most.
const most = 10_000

// Each is the seconds of one call of f, of as many as take about d, after two that do not count. f enqueues its work on s.
func Each(s device.Stream, d time.Duration, f func() error) (float64, error) {
	n, err := calls(s, d, f)
	if err != nil {
		return 0, err
	}
	return many(s, n, f)
}

// Runs are the seconds of one call of f in each of some runs. A run makes calls for about d, one behind the other, and waits for the
// last one. Two calls and one more run come first and do not count: devices that had nothing to do are slow at first. timed of
// torch/common.py does the same.
func Runs(s device.Stream, runs int, d time.Duration, f func() error) ([]float64, error) {
	n, err := calls(s, d, f)
	if err != nil {
		return nil, err
	}
	seconds := make([]float64, runs+1)
	for i := range seconds {
		if seconds[i], err = many(s, n, f); err != nil {
			return nil, err
		}
	}
	return seconds[1:], nil
}

// calls is how many calls of f take about d.
func calls(s device.Stream, d time.Duration, f func() error) (int, error) {
	if _, err := many(s, 1, f); err != nil { // loads kernels, takes memory
		return 0, err
	}
	one, err := many(s, 1, f)
	return max(1, min(most, int(d.Seconds()/max(one, 1e-9)))), err
}

// many is the seconds of one of n calls, with one wait for all.
func many(s device.Stream, n int, f func() error) (float64, error) {
	begin := time.Now()
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	err := s.Synchronize(context.Background())
	return time.Since(begin).Seconds() / float64(n), err
}

// Issued is the seconds that the host takes for one call of f, of n in a row that nothing waits for. f enqueues its work on s, which has
// nothing to do before. n calls must fit into the queue between host and device, or the host waits for the device after all.
func Issued(s device.Stream, n int, f func() error) (float64, error) {
	if err := s.Synchronize(context.Background()); err != nil {
		return 0, err
	}
	begin := time.Now()
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	took := time.Since(begin)
	return took.Seconds() / float64(n), s.Synchronize(context.Background())
}

// Spread is the median of some runs with the lowest and the highest, in microseconds.
type Spread struct {
	Microseconds float64 `json:"us"`
	Fastest      float64 `json:"us_fastest"`
	Slowest      float64 `json:"us_slowest"`
}

// Of is the spread of runs that took so many seconds; there is at least one.
func Of(seconds []float64) Spread {
	sorted := slices.Sorted(slices.Values(seconds))
	return Spread{Microseconds: 1e6 * Median(sorted), Fastest: 1e6 * sorted[0], Slowest: 1e6 * sorted[len(sorted)-1]}
}

// Median is the middle value, or the mean of the two in the middle.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
