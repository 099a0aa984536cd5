// Package pages takes ordinary memory from the operating system, outside the Go heap: page-aligned, zeroed, and pageable until
// somebody registers it with a device's driver.
package pages

import "sync/atomic"

var live atomic.Int64

// Live is how many bytes were taken and not given back: tests look for leaks.
func Live() int64 { return live.Load() }
