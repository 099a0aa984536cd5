//go:build !unix

package main

import (
	"os"
	"time"
)

var began = time.Now()

// processorTime is the time on the clock, where there is no other: of one thread.
func processorTime() time.Duration { return time.Since(began) }

// stop and resume do nothing here.
func stop(*os.Process) error   { return nil }
func resume(*os.Process) error { return nil }
