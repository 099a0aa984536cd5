package nn

import (
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
)

// CheckpointModule is a layer that saves only its input for backward. An assignment to its field replaces the layer.
type CheckpointModule struct {
	Layer
}

// Checkpointed makes m save only its input for backward, and run a second time when backward comes to it: less memory for more
// time; see autograd.Checkpoint. Names of parameters and modes are m's. As in PyTorch, a batch norm in m averages each batch into its
// running statistics twice. Backward adds to m's parameters as always. Grad computes the gradients of those alone that the graph sees, which
// WithParameters shows it:
//
//	w := g.Param(layer.Weight)
//	g.WithParameters(map[*autograd.Parameter]*autograd.Variable{layer.Weight: w}, func() *autograd.Variable { return checkpointed.Forward(x) })
func Checkpointed(m Layer) *CheckpointModule {
	return &CheckpointModule{introduced(layerOrRefused(m, "Checkpointed"))}
}

// inner is the layer now: what says that there is none if the field is nil, or if it leads back to c.
func (c *CheckpointModule) inner() Layer {
	if c == nil {
		return layerOrRefused(nil, "Checkpointed")
	}
	m := c.Layer
	for range maxWrappers {
		next, ok := m.(*CheckpointModule)
		if !ok || next == nil {
			return layerOrRefused(c.Layer, "Checkpointed")
		}
		m = next.Layer
	}
	return refused(argumentErr("Checkpointed", "the module is a part of itself"))
}

// maxWrappers is more than anybody puts around one module.
const maxWrappers = 1000

// Forward implements Layer.
func (c *CheckpointModule) Forward(x *autograd.Variable) *autograd.Variable {
	return autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable {
		return answered(in[0], c.inner().Forward(in[0]), "Checkpointed")
	}, x)
}

// Parameters implements Module.
func (c *CheckpointModule) Parameters() []*autograd.Parameter {
	return parametersOf(NamedParameters(c.inner()))
}

// To implements Module.
func (c *CheckpointModule) To(dev device.Device, opts ...Option) error {
	if m := c.inner(); baseOf(m) != nil { // which may not know what it is embedded in
		return to(m, dev, opts)
	}
	return c.inner().To(dev, opts...)
}

// Release implements Module.
func (c *CheckpointModule) Release() {
	if m := c.inner(); baseOf(m) != nil {
		release(m)
		return
	}
	c.inner().Release()
}

// Parts lists m's parts.
func (c *CheckpointModule) Parts() []Part { return partsOf(c.inner()) }

// OwnParameters lists m's own parameters.
func (c *CheckpointModule) OwnParameters() []*autograd.Parameter {
	return parametersOf(ownOf(c.inner(), ofParameters))
}

// OwnBuffers lists m's own buffers.
func (c *CheckpointModule) OwnBuffers() []*autograd.Parameter {
	return parametersOf(ownOf(c.inner(), ofBuffers))
}

func (c *CheckpointModule) ownIn(_ Module, kind contentKind) []Named { return ownOf(c.inner(), kind) }

func (c *CheckpointModule) partsIn(Module) []Part { return partsOf(c.inner()) }

// SetTraining changes m's mode.
func (c *CheckpointModule) SetTraining(on bool) {
	if t, ok := c.inner().(interface{ SetTraining(bool) }); ok {
		t.SetTraining(on)
	}
}

// String is m's description.
func (c *CheckpointModule) String() string {
	if cyclic(c) {
		return Describe("Checkpointed", c)
	}
	var b strings.Builder
	describePart(&b, c.inner(), "\n")
	return b.String()
}
