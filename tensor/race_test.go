//go:build race

package tensor_test

// raceEnabled is true when the race detector is on. Then sync.Pool loses items on purpose, which looks like allocations.
const raceEnabled = true
