//go:build !linux

package mpi

import (
	"runtime"
	"time"
)

// yield lets other goroutines go first.
func yield() { runtime.Gosched() }

// doze sleeps for a moment.
func doze() { time.Sleep(50 * time.Microsecond) }
