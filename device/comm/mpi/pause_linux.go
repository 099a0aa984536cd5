package mpi

import (
	"time"

	"golang.org/x/sys/unix"
)

// yield lets other threads of the machine go first. Go's scheduler is not asked: it would take the processor from the engine's goroutine,
// which is tied to its thread, for much longer than a message takes.
func yield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// doze sleeps for some tens of microseconds.
func doze() {
	_ = unix.Nanosleep(&unix.Timespec{Nsec: int64(20 * time.Microsecond)}, nil) // a signal may cut it short
}
