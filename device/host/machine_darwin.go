package host

import "golang.org/x/sys/unix"

// machineMemory is the machine's memory in bytes.
func machineMemory() uint64 {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return fallbackMemory
	}
	return total
}

// findProcessor returns the processor's name as the kernel knows it.
func findProcessor() string {
	name, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil || name == "" {
		return architecture
	}
	return name
}
