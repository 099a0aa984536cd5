//go:build !race

package kernels_test

// raceDetector is set in builds with the race detector, under which sync.Pool forgets things on purpose.
const raceDetector = false
