package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A thread's time is there at once, also of one that began after the watch.
func TestStopwatch_CountsEveryThread(t *testing.T) {
	require.Contains(t, threads(), os.Getpid()) // the first thread has the process's number
	var w stopwatch
	w.start()
	w.threads, w.before = nil, nil // as if all began later
	all := w.read()
	require.Positive(t, all)
	w.start()
	for w.read() < time.Millisecond {
	}
	require.Less(t, w.read(), all+time.Minute)
	w.threads, w.before = append(w.threads, -1), append(w.before, time.Hour) // one that has ended
	require.Positive(t, w.read())
}

// It is the clock by which a thread asks for its own time.
func TestThreadTime_IsThatOfTheSystem(t *testing.T) {
	var ts unix.Timespec
	before := threadTime(unix.Gettid())
	require.NoError(t, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts))
	require.Positive(t, before)
	require.LessOrEqual(t, before, time.Duration(ts.Nano())+time.Second)
	require.Zero(t, threadTime(1<<22)) // there are no such numbers
}
