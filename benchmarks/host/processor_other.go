//go:build !unix

package main

import (
	"os"
	"time"
)

// stopwatch measures the time on the clock, where there is no other: that of one thread.
type stopwatch struct{ began time.Time }

func (w *stopwatch) start()              { w.began = time.Now() }
func (w *stopwatch) read() time.Duration { return time.Since(w.began) }

// stop and resume do nothing here.
func stop(*os.Process) error   { return nil }
func resume(*os.Process) error { return nil }
