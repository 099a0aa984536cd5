// Package memlog writes what happens to device memory to a log of package log/slog: requests that fail, requests that first had the cache
// emptied, and memory that goes back to the driver.
//
//	err := memlog.To(slog.Default(), alloc)
//
// Nothing is logged without that call. In the steady state of a training loop nothing is logged with it either: allocations and frees
// that the cache serves are no events (Caching.RecordHistory keeps those).
//
// It is a package of its own so that programs which do not log do not link log/slog.
package memlog
