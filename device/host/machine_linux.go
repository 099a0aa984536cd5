package host

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupLimits are the files with the memory limit of the container that the process runs in, for cgroup versions 2 and 1.
var cgroupLimits = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// machineMemory is the machine's memory in bytes, or the container's share if that is less: what the kernel would stop the
// process for exceeding is not ours to hand out.
func machineMemory() uint64 {
	var info unix.Sysinfo_t
	total := uint64(fallbackMemory)
	if err := unix.Sysinfo(&info); err == nil {
		total = uint64(info.Totalram) * uint64(info.Unit)
	}
	for _, file := range cgroupLimits {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// "max" is no limit and does not parse.
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
			total = min(total, limit)
		}
	}
	return total
}

// findProcessor returns the first model name in /proc/cpuinfo, which not every architecture has.
func findProcessor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return architecture
	}
	for line := range bytes.Lines(text) {
		name, value, found := strings.Cut(string(line), ":")
		if found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return architecture
}
