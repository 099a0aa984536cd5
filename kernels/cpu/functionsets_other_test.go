//go:build !amd64 && !arm64

package cpu

// functionSets are none: functions are Go loops.
func functionSets() []functionSet { return nil }
