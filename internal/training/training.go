// Package training is what package tensor shares with the packages that train, autograd, autograd/optim and amp, and shows nobody else.
//
// Gradients of operations and steps of optimizers are built of what package tensor does not export, so they belong to it; but who uses
// tensors calls autograd. Therefore they are methods of two values, which tensor.Gradients and tensor.Steps hand out for a Key, and a
// Key can be written only where this package can be imported: in this module. The values have no fields, so that a call through them
// is a call of a function. What such methods take besides tensors is declared here.
package training

// Key is what tensor.Gradients and tensor.Steps are called with.
type Key struct{ _ struct{} }
