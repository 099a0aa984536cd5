package autograd

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Option changes how a graph works.
type Option func(*config)

type config struct {
	exec    []tensor.ExecOption
	noGrad  bool
	anomaly bool
	gen     *tensor.Generator
	caster  Caster
	saving  SavedTensorHooks
	begin   func(tensor.Exec) error // a step of a plan; nil for none
}

// NoGrad makes a graph for inference: nothing requires a gradient, nothing is saved, and each temporary dies when its scope
// ends.
func NoGrad() Option { return func(c *config) { c.noGrad = true } }

// WithStream runs the graph's operations on s, not on the device's default stream. Leaves that live on other streams are
// waited for, and their streams wait for the gradients at the end of Backward.
//
// On a host device's stream of its own the program is ahead of the work, and element-wise operations that wait behind each other run as
// one pass over memory (package host), forward and backward, with the same results to the bit.
func WithStream(s device.Stream) Option {
	return func(c *config) { c.exec = append(c.exec, tensor.WithStream(s)) }
}

// WithAllocator takes the memory of the graph's tensors from a, not from memory.For(dev).
func WithAllocator(a memory.Allocator) Option {
	return func(c *config) { c.exec = append(c.exec, tensor.WithAllocator(a)) }
}

// WithGenerator makes the random operations of the graph (dropout) draw from gen. Without it the graph makes itself a
// generator with a fresh seed when one is first needed.
func WithGenerator(gen *tensor.Generator) Option { return func(c *config) { c.gen = gen } }

// WithCaster lets c replace the inputs of operations: this is how package amp does autocasting.
func WithCaster(c Caster) Option { return func(cfg *config) { cfg.caster = c } }

// wrong is what is wrong with the options but for those that tensor.On checks: a nil pointer casts, or packs, nothing.
func (c *config) wrong() error {
	if err := nilPointer("NewGraph", "caster", c.caster); err != nil {
		return err
	}
	return nilPointer("NewGraph", "object with the hooks", c.saving)
}

// nilPointer refuses what is a nil pointer, but not nil.
func nilPointer(op, what string, v any) error {
	if v == nil || !isnil.Value(v) {
		return nil
	}
	return &tensor.ValueError{Op: op, Detail: isnil.Why(what, v)}
}

// DetectAnomaly is for finding out where wrong gradients come from, as torch.autograd.detect_anomaly: each operation
// remembers where it was called, and backward fails at the first rule that makes a NaN. It waits for the device after each
// rule, so it is slow.
func DetectAnomaly() Option { return func(c *config) { c.anomaly = true } }

// Caster replaces the inputs of operations before they run: autocasting to a lower precision is one. Every operation of a
// graph calls it at one place, with the operation's name (Operations lists them) and inputs. It returns the inputs to use,
// which may be in itself, changed or not: the slice belongs to this one run of the operation. It makes new variables with
// ordinary operations on the old ones (Variable.To), during which it is not called again. They serve this run only: their
// values are released after it, but for what the operation saves. What shall serve several times is made with Graph.Memo. An
// error becomes the error of the operation.
type Caster interface {
	Cast(op string, in []*Variable) ([]*Variable, error)
}

// Lowerer is a Caster that can say before an operation runs to which type of half precision it will convert inputs in float32: so that what they are made by can
// write that type itself. It is 0 if they stay as they are.
type Lowerer interface {
	Lowers(g *Graph, op string) tensor.DType
}

// Widener is a Caster that wants some operations, which compute in float32 whatever they are given, to return float32 for inputs in
// half precision: so their inputs need no conversion, which would take twice the memory. It is asked for cross_entropy.
type Widener interface {
	Widens(op string) bool
}
