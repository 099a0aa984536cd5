//go:build unix && !linux

package main

import (
	"syscall"
	"time"
)

// stopwatch measures the time that all threads of this process compute.
type stopwatch struct{ before time.Duration }

func (w *stopwatch) start() { w.before = processorTime() }

func (w *stopwatch) read() time.Duration { return processorTime() - w.before }

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
