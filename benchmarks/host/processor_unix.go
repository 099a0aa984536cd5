//go:build unix

package main

import (
	"os"
	"syscall"
)

// stop and resume keep a process off the processors for a while: threads of OpenBLAS look for work for some 25 milliseconds after each product, on processors
// that the next run of the other side would have.
func stop(p *os.Process) error   { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
