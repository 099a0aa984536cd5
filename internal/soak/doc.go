// Package soak holds a test, and no code for others: it trains for a long time as servers and notebooks do, with batches of all sizes,
// checkpoints, errors and panics in the middle of steps, new streams and graphs, handles that are dropped, and several goroutines, and
// demands that nothing grows: bytes of the device, the Go heap, goroutines, open files, the memory of the process.
//
// "go test" runs it for some seconds; CISTERN_SOAK=10m, or .ci/run soak, runs longer.
package soak
