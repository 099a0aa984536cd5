//go:build !race

package autograd_test

// raceEnabled is true when the race detector is on.
const raceEnabled = false
