package main

import (
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// stopwatch measures the time that all threads of this process compute. What the system counts for the whole process is not good enough for short runs: the time
// of threads that run at the moment on other processors is missing from it, up to a tick of 4 milliseconds. A thread's own clock is exact at any time.
type stopwatch struct {
	threads []int
	before  []time.Duration
}

// start begins anew.
func (w *stopwatch) start() {
	w.threads, w.before = threads(), w.before[:0]
	for _, t := range w.threads {
		w.before = append(w.before, threadTime(t))
	}
}

// read is the time since start.
func (w *stopwatch) read() (sum time.Duration) {
	for i, t := range w.threads {
		sum += max(0, threadTime(t)-w.before[i]) // 0 if it has ended
	}
	for _, t := range threads() {
		if !slices.Contains(w.threads, t) {
			sum += threadTime(t)
		}
	}
	return sum
}

func threads() (ids []int) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// threadTime is what a thread has computed, by the clock whose number the kernel makes of the thread's: see MAKE_THREAD_CPUCLOCK in its
// include/linux/posix-timers.h.
func threadTime(thread int) time.Duration {
	const perThread, scheduler = 4, 2
	var t unix.Timespec
	if unix.ClockGettime(int32(^thread<<3)|perThread|scheduler, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
