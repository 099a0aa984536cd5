package memory

import (
	"fmt"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
)

// named is what allocators print: their kind, their device, and whether they are closed. Statistics are left out, because they take locks.
func named(kind string, id device.ID, closed *atomic.Bool) string {
	text := fmt.Sprintf("%s of %s", kind, id)
	if closed.Load() {
		text += ", closed"
	}
	return text
}
