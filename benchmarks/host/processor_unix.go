//go:build unix

package main

import (
	"syscall"
	"time"
)

// processorTime is the time that all threads of this process have computed.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
