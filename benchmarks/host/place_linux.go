package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// Processors of one machine differ, for a hundred milliseconds or for good: in a virtual machine one may share its core with somebody else's load, and small
// operations take twice as long there. A thread stays on its processor when nothing drives it away, so that all runs of one side could be on the slow one. Runs
// therefore begin on each processor in turn, those of both sides on the same. So do those of several threads: left
// alone, they may stay on one processor together in all runs.

// places are the processors that this process may use, none where there is no choice.
func places() (cpus []int) {
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil {
		return nil
	}
	for i := range 64 * len(all) {
		if all.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	if len(cpus) < 2 {
		return nil
	}
	return cpus
}

// begin moves this thread to the i-th processor, and lets it go where it likes from there.
func begin(cpus []int, i int) error {
	if err := hold(0, cpus, i); err != nil {
		return err
	}
	return free(0, cpus)
}

// holdPeer keeps a process's first thread on a processor, and freePeer lets it go. It is stopped when it is told, and moves when it goes on.
func holdPeer(p *os.Process, cpus []int, i int) error { return hold(p.Pid, cpus, i) }
func freePeer(p *os.Process, cpus []int) error        { return free(p.Pid, cpus) }

func hold(thread int, cpus []int, i int) error {
	if len(cpus) == 0 {
		return nil
	}
	return unix.SchedSetaffinity(thread, set(cpus[i%len(cpus)]))
}

func free(thread int, cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	return unix.SchedSetaffinity(thread, set(cpus...))
}

func set(cpus ...int) *unix.CPUSet {
	var s unix.CPUSet
	for _, c := range cpus {
		s.Set(c)
	}
	return &s
}
