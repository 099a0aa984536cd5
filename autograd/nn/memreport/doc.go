// Package memreport answers where the memory of a training step goes: for each module and for each operation what it has allocated, freed and saved for
// backward, and what of that was there when the most was, divided into parameters, gradients, optimizer state, activations, inputs, workspace and the rest.
//
//	report, err := memreport.Measure(dev, func() error { return step(batch) })
//	fmt.Print(report)
//
// The numbers are those of the allocator, rounded as it rounds: the categories, the modules and the operations each add up to Report.Peak, which is
// what its AllocatedBytes had as its peak, to the byte. On a simulated device the report is that of a GPU.
//
// What belongs to which category:
//
//   - Parameters: the values of parameters that a graph has used, or that WithModel names, with buffers such as running statistics.
//   - Gradients: gradients of parameters and inputs, and those on their way through the backward pass.
//   - OptimizerState: what optimizers of package optim keep for each parameter.
//   - Activations: results of operations, and what operations have saved for backward.
//   - Inputs: tensors given to Graph.Input, or made with Graph.New.
//   - Workspace: what operations, rules of gradients and optimizers have needed for themselves.
//   - Other: what no operation has asked for, as tensors made beside graphs.
//
// A block that is several of these, as an input that is a parameter, counts as the first of Parameters, OptimizerState, Gradients, Inputs, Activations. A block counts for the
// operation, and the module around it, that allocated it. A parameter counts for the module that used it first, and optimizer state for the
// module of its parameter.
package memreport
