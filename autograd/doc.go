// Package autograd records operations on tensors, computes gradients, and decides when memory is given back. It is the
// layer that makes the lifetime of device memory a matter of structure: the garbage collector, which sees a handle of a few
// bytes where megabytes of a device hang, is only the safety net.
//
//	g := autograd.NewGraph(dev)
//	logits := model.Forward(g.Input(images))
//	loss := logits.CrossEntropy(g.Input(labels))
//	err := loss.Backward() // the first error of the whole chain
//	g.Release()            // device memory is back in the pool
//
// A Graph is made for one pass over the data. A Variable is a tensor in a graph; operations are its methods. A Parameter is a
// leaf that outlives graphs. Values, names and defaults are PyTorch's.
//
// # The rules of lifetime
//
//  1. A graph owns every tensor that its operations make. Nobody else releases them, and nothing waits for the garbage
//     collector.
//
//  2. Leaves belong to the user. Input, Param and New make variables of tensors; for Input and Param the graph takes a handle
//     of its own on them, so they may even be released while it works. Parameters own their value and their gradient.
//
//  3. A variable lives until the end of the innermost scope (Graph.Scope) in which it was made. The results of a scope pass to
//     the scope around it. Outside of all scopes variables live until rule 6 or 8.
//
//  4. An operation saves what its gradient rules will read, and only for those of its inputs that need a gradient: an input, its
//     result, or a tensor of its own. What it saves is said where it is documented. Saved tensors are shared, not copied, and
//     stay when their variable is gone: the variable is then unusable, the memory is not free.
//
//  5. Backward runs the nodes in the opposite order of their creation. When a node has run, it frees what the node had saved and
//     the gradient that had come in: memory falls node by node, not at the end. A second Backward over such nodes is an error.
//     RetainGraph keeps everything instead.
//
//  6. When backward comes to a node, nobody will read its result any more, so the variable is released first; the variable that
//     Backward was called on, leaves and variables with Keep stay. Read or Keep what is wanted after Backward.
//
//  7. A parameter's first gradient is stolen if nobody else holds it, later ones are added in place. ZeroGrad releases it.
//
//  8. Graph.Release frees the rest. The allocator then counts exactly what the leaves hold. Using a variable afterwards is an
//     error that says so.
//
//  9. Variable.Take takes a value out of the graph; then it is its new owner's to release. Other handles that users see of a
//     graph's tensors (Variable.Tensor, Grad, the arguments of hooks and Functions) are borrowed: releasing them does nothing, and
//     what is made of them, also with Retain, is the user's, with the safety net.
//
//  10. A graph that is dropped without Release is found by the garbage collector some time, and its memory goes back at the next
//     allocation. Statistics count that (NumDeferredFrees), so that it is seen.
//
// With NoGrad nothing is saved and rules 4 to 7 fall away: each temporary dies with its scope. With Checkpoint only the inputs
// of a part of the model are saved, and backward computes the part again.
//
// # Errors
//
// Operations return no errors. The graph keeps the first one, with the operation, the shapes and the line of the program, and
// operations after it do nothing, as in bufio.Writer: Graph.Err and Backward return it. A user's mistake is never a panic.
// Errors of memory, of shapes and of the device stay reachable for errors.As: *memory.OOMError, *tensor.ShapeError, ...
//
// A tensor that was saved and then changed in place (by an optimizer between forward and backward, say) would give wrong
// gradients: each storage counts its changes, and Backward refuses what is not as it was saved (*ModifiedError).
//
// # Changes in place
//
// Operations whose names end in InPlace write their result over the variable's memory, make the variable stand for it, and return the
// variable. What was computed from it before has the gradient that it had; what is computed from it afterwards has the operation behind
// it. On a leaf made by Input the memory is the user's tensor.
//
// As in PyTorch, a leaf that requires a gradient is refused (ErrInPlace), but within Graph.NoGrad, and Backward refuses what an earlier
// operation has saved and what was changed since (ErrModified). Unlike in PyTorch, where views are tracked, two more are refused while
// gradients flow through the result: a variable that is its own operand, and one that shares its memory with another variable, such as a
// view and what it is a view of, or with a tensor outside of the graph. What helps is a copy (Contiguous of a view that is not
// contiguous, MulScalar(1) of anything), a Scope of its own that ends the other variable, or the operation that is not in place.
//
// # In the way of gradients
//
// Hooks see gradients on their way, and may replace them (RegisterHook of variables and parameters, RegisterVariableHook), but not write
// over them: others may have the same memory. A hook that is called when a parameter's gradient is complete can take the optimizer's
// step at once (RegisterPostAccumulateGradHook). Hooks of saved tensors decide in what form they are kept: SaveOnCPU keeps them in
// host memory. Function makes operations of a program's own. Grad returns gradients instead of adding them up.
//
// With CreateGraph gradients are recorded, and can be differentiated again: for gradient penalties, Hessian-vector products, meta-learning.
// Their values are those of an ordinary pass. A Function has such gradients if it computes them with variables (BackwardVariables); without
// that it says so (ErrHigherOrder). A hook of RegisterVariableHook is recorded as well.
//
// Backward adds gradients to what is there: parts of a batch, each in a graph of its own, leave their sum until ZeroGrad.
//
// # How it is built
//
// Each operation is a row of a table: the forward function, and beside it the rule of each input, with what of the forward pass the rule
// reads. Every run of every operation goes through one place, where inputs are checked and cast (Caster), and another one, where
// the result is put in the ledger and what the rules use is saved. Rules are written with the operations of package tensor; they sum
// nothing for broadcasting and convert nothing: the engine brings each gradient to the shape and type of its input (but for types where
// nobody looks and the next rule takes any: gradtype.go), adds
// gradients up, in place where it can, and frees. A rule that is the last reader of a gradient which nobody else holds may write
// over it: element-wise rules do. The ledger lists what a graph owns, apart from it, so that it can be freed when the graph is lost.
//
// # Streams
//
// A graph works on one stream (WithStream). It waits for the streams of its leaves when they come in, and they wait for it when
// backward has left their gradients: leaves and optimizers may work on other streams without further care.
//
// # Goroutines
//
// A graph with its variables, and a parameter, are for one goroutine at a time. Different graphs are independent of each other. While
// nobody changes a parameter (its value, gradient, hooks or RequiresGrad) graphs of several goroutines may read it: graphs made with
// NoGrad do, as does a forward pass without Backward, which adds gradients.
package autograd
