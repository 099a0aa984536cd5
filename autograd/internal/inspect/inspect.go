// Package inspect is what tests of package autograd see of its inside. A test file of the package itself would have the go command compile it, and
// all packages between it and the tests, once more for them. Package autograd fills it in.
package inspect

var (
	// Observe makes f be called after each forward and each gradient rule of a *autograd.Graph.
	Observe func(graph any, f func(op string, backward bool))
	// Owned is how many tensors a *autograd.Graph holds.
	Owned func(graph any) int
	// Differentiable reports whether any input of an operation has a rule, and lists what is said of the others.
	Differentiable func(name string) (some bool, reasons []string)
	// RecordsGradients reports whether the gradient of an operation can be recorded.
	RecordsGradients func(name string) bool
	// Sizes are the bytes of a variable, of a node of the graph and of what a node has saved.
	Sizes func() (variable, node, saved uintptr)
)
