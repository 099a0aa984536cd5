// Package stat has the arithmetic of statistics, which are PyTorch's.
package stat

import (
	"cmp"
	"iter"
	"slices"
)

// Counter is what memory.Stat is; the two convert into each other.
type Counter struct {
	Current, Peak, Allocated, Freed int64
}

// Increase adds to Current and Allocated and may lift Peak.
func (c *Counter) Increase(n int64) {
	c.Current += n
	c.Allocated += n
	c.Peak = max(c.Peak, c.Current)
}

// Decrease takes from Current and adds to Freed.
func (c *Counter) Decrease(n int64) {
	c.Current -= n
	c.Freed += n
}

// ResetPeak begins a new peak.
func (c *Counter) ResetPeak() { c.Peak = c.Current }

// ResetAccumulated begins new sums.
func (c *Counter) ResetAccumulated() { c.Allocated, c.Freed = 0, 0 }

// Flat is one number of a nested statistic, under the names of all levels.
type Flat struct {
	Key   string // joined by points
	Value int64
}

// Sorted yields a list by key.
func Sorted(list []Flat) iter.Seq2[string, int64] {
	slices.SortFunc(list, func(x, y Flat) int { return cmp.Compare(x.Key, y.Key) })
	return func(yield func(string, int64) bool) {
		for _, e := range list {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}
