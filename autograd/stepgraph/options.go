package stepgraph

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// Option changes what New makes.
type Option func(*Step)

// Modules are the modules whose parameters and buffers the step uses, all of them: New brings them to the step's stream, because a capture takes no part in what is
// on other streams. Call it before anything that keeps tensors for the parameters, such as a step of an optimizer or its LoadStateDict.
func Modules(m ...nn.Module) Option {
	return func(s *Step) { s.modules = append(s.modules, m...) }
}

// GraphOptions are options of the graphs on which the function is called, such as amp.Autocast. Stream, allocator and generator are the
// step's.
func GraphOptions(opts ...autograd.Option) Option {
	return func(s *Step) { s.options = append(s.options, opts...) }
}

// WithGenerator makes the random operations of the step draw from gen. Each replay goes on where the last run was, as eager runs do. By
// default the step has a generator with a fresh seed.
func WithGenerator(gen *tensor.Generator) Option { return func(s *Step) { s.gen = gen } }

// WarmUp is how many runs are eager before the first capture; the default is 3, and at least 1 makes what must be there before it, such as the
// optimizer's state. They are steps like all others.
func WarmUp(n int) Option { return func(s *Step) { s.warm = max(n, 1) } }

// MaxGraphs is for how many different shapes of the inputs a graph is captured; the default is 4. Inputs of other shapes are run
// eagerly.
func MaxGraphs(n int) Option { return func(s *Step) { s.most = max(n, 0) } }
