package host

import (
	"runtime"
	"sync"
)

// fallbackMemory is the capacity where the machine's memory cannot be found out.
const fallbackMemory = 8 << 30

// architecture stands for a processor whose name cannot be found out.
const architecture = runtime.GOOS + "/" + runtime.GOARCH

// processorName asks the system once.
var processorName = sync.OnceValue(findProcessor)
