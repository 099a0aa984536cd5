//go:build unix

package main

import (
	"os"
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

// stop and resume keep a process off the processors for a while: threads of OpenBLAS look for work for some 25 milliseconds after each product, on processors
// that the next run of the other side would have.
func stop(p *os.Process) error   { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
