//go:build invariants

package memory

import (
	"fmt"
	"sync/atomic"
)

// auditor spaces the checks of builds with the tag "invariants", which follow public calls: a check walks over all blocks, so
// with many of them it comes less often.
type auditor struct {
	skip atomic.Int64 // calls until the next check
}

// blocksPerCall is how many blocks may exist for each call to be checked: with ten times as many, each tenth call is.
const blocksPerCall = 64

// audit proves the invariants after a public call, or panics with the one that does not hold. It is skipped while somebody has
// the driver lock, who may be the caller himself: a pool's source frees blocks under Caching.mu.
func (a *Caching) audit(call string) {
	if a.auditor.skip.Add(-1) >= 0 || !a.mu.TryLock() {
		return
	}
	defer a.mu.Unlock()
	blocks, err := a.checkLocked()
	a.auditor.skip.Store(blocks / blocksPerCall)
	if err != nil {
		panic(fmt.Sprintf("after %s on %s: %v", call, a.id, err)) // invariant: those of doc.go
	}
}
