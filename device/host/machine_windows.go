package host

import (
	"os"

	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// machineMemory is the machine's memory in bytes.
func machineMemory() uint64 {
	if total := osmem.Physical(); total > 0 {
		return total
	}
	return fallbackMemory
}

// findProcessor returns the processor's name as Windows tells every process.
func findProcessor() string {
	if name := os.Getenv("PROCESSOR_IDENTIFIER"); name != "" {
		return name
	}
	return architecture
}
