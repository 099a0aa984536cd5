// Package memreport answers where the memory of a training step goes: for each module and for each operation what it has allocated, freed and saved for
// backward, and what of that was there when the most was, divided into parameters, gradients, optimizer state, activations, inputs, workspace and the rest.
//
//	report, err := memreport.Measure(dev, func() error { return step(batch) })
//	fmt.Print(report)
//
// The numbers are those of the allocator, rounded as it rounds: the categories, the modules, the operations and the operations of each module add up to Report.Peak, which is
// what its AllocatedBytes had as its peak, to the byte. On a simulated device the report is that of a GPU.
//
// What belongs to which category:
//
//   - Parameters: the values of parameters that a graph has used, and buffers, such as running statistics, of modules whose forward pass was run: and
//     both of models that WithModel names.
//   - Gradients: gradients of parameters and inputs, and those on their way through the backward pass.
//   - OptimizerState: what optimizers of package optim keep for each parameter, if they take a step while it is recorded or WithOptimizer names them: what was
//     made before and is not told of is Other, or Workspace, and Report.Hint says how much there is of that.
//   - Activations: results of operations, and what operations have saved for backward.
//   - Inputs: tensors given to Graph.Input, or made with Graph.New.
//   - Workspace: what operations, rules of gradients and optimizers have needed for themselves.
//   - Other: what no operation has asked for, as tensors made beside graphs.
//
// A block that is several of these, as an input that is a parameter, counts as the first of Parameters, OptimizerState, Gradients, Inputs, Activations. A block counts for the
// operation, and the module around it, that allocated it: not for the modules around that one. What a model itself does has no path, and is called "(model)";
// "(outside)" is what no module did. A parameter counts for the module that used it first, and optimizer state for the
// module of its parameter.
package memreport
