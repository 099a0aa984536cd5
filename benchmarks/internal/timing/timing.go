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

// Each is the seconds of one call of f, of as many as take about d, after two that do not count. f puts its work on s.
func Each(s device.Stream, d time.Duration, f func() error) (float64, error) {
	many := func(n int) (time.Duration, error) {
		begin := time.Now()
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		err := s.Synchronize(context.Background())
		return time.Since(begin), err
	}
	if _, err := many(1); err != nil { // loads kernels, takes memory
		return 0, err
	}
	one, err := many(1)
	if err != nil {
		return 0, err
	}
	n := max(1, min(most, int(d/max(one, time.Nanosecond))))
	took, err := many(n)
	return took.Seconds() / float64(n), err
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
