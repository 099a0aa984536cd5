//go:build race

package autograd_test

// raceEnabled is true when the race detector is on. Then sync.Pool loses items on purpose, which looks like allocations.
const raceEnabled = true
