// Package torchtest compares Cistern with PyTorch: it runs random programs in both, and says where results, gradients, types, shapes or
// refusals differ.
//
// # Programs
//
// A Program is data: steps that make inputs (of any type, shape and view, with special values at times), call operations by name, or
// run layers with given parameters; and a backward pass at the end, of all leaves or of chosen variables (autograd.Grad); a sixth
// of the passes are recorded, and differentiated again. It runs
// in a graph, or, if it is eager, by the methods of tensors, where changes in place of views are free. Another kind of program is the
// steps of an optimizer with clipping and a schedule. A program of a seed is always the same one.
//
// The Runner calls operations by reflection: a new method of tensor.Tensor or autograd.Variable needs a line in testdata/torch.py,
// which says what it is in PyTorch, and one in makers.go, which chooses its arguments. After each program nothing may be left
// allocated.
//
// # What must agree
//
// Types and shapes, always. Which step is refused, if any: of the texts of errors nothing is asked. Elements: all bits (but the sign of
// zero and the bits of NaN) where an operation is exact or rounds once, which testdata/torch.py lists as EXACT. Where it is not, the
// tolerance is that of the program, not of the operation: PyTorch runs the program again and again, each time with errors of the
// size that its operations may make, forwards and backwards,
//
//   - functions of single elements (FUNCTIONS): 4 units in the last place of each result, 1 for half types;
//   - sums and products: as much for each element of their operands, which is the bound of a sum in any order;
//   - functions whose terms cancel, and layers (ROUGH): as much of the largest element;
//
// and an element may be as far from PyTorch's as 8 times the distance that it was seen to move. So an ill-conditioned program
// is not held against either, a jump that a rounding error decides is no difference, and ties of exact numbers must be resolved alike.
//
// The noise turns the signs of zeros around too, so that poles and roots of zeros of either sign agree. Where a second derivative is NaN in
// one of the two nothing is compared: whether formulas multiply 0 by infinity is left open.
//
// Where one result of an inexact operation is infinite and the other is within 16 times of it, the order of a sum or product decides; of
// an exact one nothing is let pass. What PyTorch 1.13 itself gets wrong is computed another way in testdata/torch.py (half types by way of
// float32, gradients at NaN), so that the operation is still compared.
//
// Declared lists the differences that are meant. A gradient's names the operations that it may have come through. What PyTorch has no
// kernel for is not compared.
//
// # The corpus
//
// Programs that once showed a difference are in testdata/corpus with PyTorch's answer and its tolerances; they run without Python. Add
// one with
//
//	go test ./internal/torchtest -run Corpus -torchadd 'the JSON of the program'
//
// Without Python the corpus is all that "go test" runs; with a Python that has PyTorch it runs 100 random programs too, always the same
// ones, which takes some 2 seconds. Longer runs, from new seeds, are .ci/run torch. Flags of the test: -torchtwice says
// how many of the passes are differentiated twice, -torchcount or -torchtime says
// how many or how long, -torchseed from where on, -torchall goes on after a difference, -torchone runs the program of one seed.
// What fails is shrunk and printed, as lines to read and as JSON.
package torchtest
