//go:build unix && !linux && !darwin

package host

// machineMemory is a guess on systems that nobody has asked yet. Capacity overrides it.
func machineMemory() uint64 { return fallbackMemory }

func findProcessor() string { return architecture }
