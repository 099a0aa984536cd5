package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// CheckpointModule is a module that saves only its input for backward.
type CheckpointModule struct {
	Module
}

// Checkpointed makes m save only its input for backward, and run a second time when backward comes to it: less memory for more
// time; see autograd.Checkpoint. Names of parameters and modes are m's.
func Checkpointed(m Module) *CheckpointModule { return &CheckpointModule{orRefused(m, "Checkpointed")} }

// Forward implements Module.
func (c *CheckpointModule) Forward(x *autograd.Variable) *autograd.Variable {
	return autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable { return c.Module.Forward(in[0]) }, x)
}

// Parts lists m's parts.
func (c *CheckpointModule) Parts() []Part { return partsOf(c.Module) }

// OwnParameters lists m's own parameters.
func (c *CheckpointModule) OwnParameters() []*autograd.Parameter { return ownOf(c.Module) }

// OwnBuffers lists m's own buffers.
func (c *CheckpointModule) OwnBuffers() []*autograd.Parameter { return buffersOf(c.Module) }

// SetTraining changes m's mode.
func (c *CheckpointModule) SetTraining(on bool) {
	if t, ok := c.Module.(interface{ SetTraining(bool) }); ok {
		t.SetTraining(on)
	}
}

// String is m's description.
func (c *CheckpointModule) String() string { return fmt.Sprint(c.Module) }
