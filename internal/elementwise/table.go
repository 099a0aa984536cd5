package elementwise

// Op is an element-wise operation of one to three tensors.
//
// Expressions name the elements of its inputs a, b and c, and its scalars by their names.
type Op struct {
	Name  string // in Go: Softsign
	Torch string // in PyTorch: softsign. The name of kernels, and of the operation in autograd and amp

	Second  string   // the name of the second input, of operations of two
	Third   string   // and of the third, of which tensor and autograd have functions by hand
	Scalars []string // the names of the numbers that it takes after its inputs, two at most: F, or I, of its calls
	Does    string   // what documentation says after the name of the function, of the tensor t (v in autograd)
	More    string   // sentences that it has besides
	Note    string   // sentences that autograd's documentation has besides
	Differs string   // from PyTorch's operation, in words of docs/parity-ops.md; empty where nothing does
	Types   Types
	OfBools string  // of Numeric: the operation that is run for two bools, which are refused else
	OfWhole float64 // of Tests: what they give, as a number, for types that are not of floating point

	Func // what it computes; empty if it has the kernel of another one

	// Gradients has one for each input.
	Gradients []Gradient
	Fused     bool   // a linear layer may have computed it already
	InPlace   Layers // those that have it in place too: autograd only if the gradient is of the result

	Autocast string // a class of package amp

	// ByHand are the layers that have no function of it, or one by hand, because there it is like no other operation.
	ByHand Layers

	Test Test
}

// Func is a function of elements, on processors and GPUs, with what it is tested against.
//
// In Go expressions elements are float64, whatever the tensors are, and the result is rounded once, unless Own is set. In CUDA they
// are of the type of computation C, float or double, and the result too. Of an operation with Types of which the result is of bools
// they are conditions.
type Func struct {
	Go     string
	Own    bool   // Go is arithmetic in the type T of the tensors itself, and so are scalars; whole numbers wrap
	Narrow string // like Go, in its place where results are float32 or of half precision: a function of fewer digits
	Whole  string // like Go, in its place for integers

	// Kernels of package cpu that are written by hand: Float32, Float64 and Int64 for the one type, which may go on with the generated kernel, Loop in place
	// of a generated one, WholeLoop for integers and Bool for bools. Of a function of both types there is nothing to generate, and no Go.
	Float32, Float64, Int64, Loop, WholeLoop, Bool string

	CUDA     string
	CUDABool string // the operation whose CUDA function it has for bools
	Quick    bool   // on GPUs it takes no longer than loads, though it calls functions
	Slow     bool   // on GPUs it computes for so long, in double precision, that its kernels move elements one by one, which is less code
	Double   bool   // on GPUs its scalars are of type double (of integers, long) whatever the type of computation is
	Bounds   bool   // scalars that a type of integers does not hold become the nearest ones that it does

	// Reference is a Go expression like Go, written from the definition, of whole numbers too where the operation takes them; bounded(a, b)
	// is a sum whose second term may be too large for float32.
	Reference      string
	WholeReference string // in its place for integers
	Scale          string // the size of the largest term of a sum that may cancel; an expression like Reference, or several
	Ulps           float64
	Wild           bool   // numbers of all sizes are tried, with NaN and infinities, else such up to 1000; of gradients, else those of the range that Test has
	Values         string // a method of kerneltest's maker that gives them, in place of all that
}

// Types says which tensors an operation takes.
type Types uint8

const (
	ToFloat    Types = iota // floating-point types; tensors of others become float32 first
	OnlyFloats              // floating-point types; others are refused
	Numeric                 // floating-point and integer types; bool is refused. Go is arithmetic in the type itself
	Lifting                 // floating-point and integer types, which the scalars lift to their category. Go as of Numeric
	Rounding                // floating-point types; integers stay as they are, bool is refused
	Tests                   // floating-point types, with results of bools; see OfWhole
	Conditions              // all types, with results of bools. Go is a condition of the type itself
	Integers                // integer types; others are refused. Go is arithmetic in the type itself
	Bools                   // bools, with results of bools; others become bools first. Go is arithmetic of 0 and 1
)

// Layers are packages with functions of their own.
type Layers uint8

// The layers.
const (
	Tensor   Layers = 1 << iota // package tensor: the function, but not its gradients
	Autograd                    // package autograd
)

// Gradient is the derivative of an operation by one of its inputs, times the incoming gradient g. It has a kernel, whose expressions
// name g, or a rule of other operations, or is not there.
type Gradient struct {
	OfOutput bool // it is a function of the result, which expressions name a; else of the inputs
	Func          // its reference is without g, or names it
	Formula  string
	From, To float64 // where saved numbers are tried, if not in the range of Test

	// Rule is a function of package autograd in place of a kernel, and Uses what of the forward pass it reads, as that package writes it.
	Rule, Uses string

	None string // why there is none
}

// Test says with what an operation is tried, and how far off it may be.
type Test struct {
	Scalars  []string // values of the scalars, in turn: Go expressions, separated by commas
	Wholes   []string // those for integers
	From, To float64  // where the function is compared with finite differences and PyTorch, at nine even places: let them meet each edge
	Near     bool     // it is not compared with PyTorch outside of that
	Torch    string   // PyTorch's expression of x and y
}
