// Package nn has the layers that models are made of, under PyTorch's names and with its defaults.
//
//	model := nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
//	if err := model.To(dev, nn.Seed(1)); err != nil { ... }
//	defer model.Release()
//
// # Life of a model
//
// A constructor takes no memory and returns no error: it declares parameters, each with its shape and how it is initialized.
// To gives them memory on a device and their first values; on a model that has values it moves them to another device or
// type. Release gives the memory back. Using a model before To is an error of the graph that used it.
//
// # Buffers and modes
//
// What a module remembers besides parameters, as the running statistics of BatchNorm2d, are its buffers: To moves them, Save and Load
// have them under PyTorch's names, and optimizers never see them. Train and Eval choose between the two ways in which Dropout and
// batch norm work.
//
// # Memory
//
// The Forward of every layer is a scope of the graph: what it makes on the way, and neither returns nor saves for backward,
// is freed when it returns. Sequential nests them, so that without gradients a layer's input is freed as soon as the layer
// has run: the memory of inference is that of the two largest neighbours, however deep the model is.
//
// # Own modules
//
// Embed Base, register the fields with what the module has (RegisterField, RegisterList, RegisterParameterField,
// RegisterBufferField), and write Forward:
//
//	type Net struct {
//		nn.Base
//		fc1, fc2 *nn.LinearLayer
//	}
//
//	func NewNet() *Net {
//		n := &Net{fc1: nn.Linear(8, 16), fc2: nn.Linear(16, 1)}
//		nn.RegisterField(&n.Base, "fc1", &n.fc1)
//		nn.RegisterField(&n.Base, "fc2", &n.fc2)
//		return n
//	}
//
//	func (n *Net) Forward(x *autograd.Variable) *autograd.Variable {
//		return n.Scope(x, func(g *autograd.Graph) *autograd.Variable { return n.fc2.Forward(n.fc1.Forward(x).ReLU()) })
//	}
//
// Scope frees what Forward makes on the way, and lets errors of operations in it name the module's path. A method with several
// results, as an encoder has that gives mean and variance, or a network with a state, does the same with Scopes. Module asks for a Forward
// with one result beside it, by which the module can be a part of others.
//
// # Goroutines
//
// After Eval, and as long as nobody trains, moves, loads, registers or assigns anything, several goroutines may call Forward of one model,
// each in a graph of its own (NoGrad), on one stream or on several: nothing of the model changes. So a server needs one copy of the weights.
// In training a module is for one goroutine at a time: batch norm counts its batches, and parameters collect gradients. An own module must
// not write to its fields in Forward either.
//
// # Tying
//
// Registered fields are read when a list is asked for: parameters, parts, names, state. So an assignment to a field of a layer, or to one
// that a module of your own has registered, is all it takes to share a parameter or to replace a part:
//
//	decoder.Weight = encoder.Weight
//
// A parameter with several names gets memory, a gradient and a step once. Save writes it under each of its names; Load takes it
// under any.
//
// # Replacing
//
// A part that is replaced, such as the head of a model that is to be fine-tuned, has new parameters. It needs To, which leaves the others
// where they are, and optimizers must be made afterwards: an optimizer keeps the list of parameters that it was given. It cannot know that
// they are of no model any more, nor that the model has others, which it does not train. So tie and replace first, then make optimizers, or
// add the new parameters to them (optim.Grouped.AddGroup). If the program releases what it replaced, as it should, the next Step of an
// optimizer that still has it is an error.
//
//	model.head.Release()
//	model.head = nn.Linear(768, 2)
//	err := model.To(dev)
//	opt := optim.AdamW(model.Parameters())
package nn
