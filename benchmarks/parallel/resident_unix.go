//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// resident is the most memory that a process, or one that it has waited for, had resident, in bytes: on Linux at least what this one had when it started it, which is little.
func resident(s *os.ProcessState) int64 {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) << 10 // kilobytes
}
