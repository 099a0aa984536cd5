package checkpoint

import "github.com/cistern-ml/cistern/internal/atomicfile"

// On makes WriteFile use another file system.
func (c *Checkpoint) On(sys atomicfile.FS) *Checkpoint {
	c.sys = sys
	return c
}
