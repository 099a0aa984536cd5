//go:build !race

package tensor_test

// raceEnabled is true when the race detector is on.
const raceEnabled = false
