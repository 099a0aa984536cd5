//go:build race

package cpu

// raceDetector is set in builds with the race detector, under which sync.Pool forgets things on purpose.
const raceDetector = true
