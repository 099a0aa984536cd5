package elementwise

// Op is an element-wise operation of one or two tensors.
//
// Go and CUDA expressions name the elements of its inputs a and b. In Go they are float64, whatever the tensors are, and the result is
// rounded once; in CUDA they are of the type of computation C, float or double, and the result too.
type Op struct {
	Name  string // in Go: Softsign
	Torch string // in PyTorch: softsign. The name of kernels, and of the operation in autograd and amp

	Second string // the name of the second input, of operations of two
	Does   string // what documentation says after the name of the function, of the tensor t (v in autograd)
	Types  Types

	Go, CUDA string // expressions

	// Gradients has one for each input. Its expressions name the incoming gradient g.
	Gradients []Gradient

	Autocast string // a class of package amp

	Test Test
}

// Types says which tensors an operation takes.
type Types uint8

const (
	ToFloat    Types = iota // floating-point types; tensors of others become float32 first
	OnlyFloats              // floating-point types; others are refused
	Numeric                 // floating-point and integer types; bool is refused. Go is arithmetic in the type itself, whole numbers wrap
)

// Gradient is the derivative of an operation by one of its inputs, times the incoming gradient g.
type Gradient struct {
	OfOutput bool // it is a function of the result, which expressions name a; else of the inputs
	Go, CUDA string
	Formula  string // what documentation says it is
}

// Test says with what an operation is tried, and how far off it may be.
type Test struct {
	Reference string // a Go expression like Go, written from the definition. Of whole numbers too, where the operation takes them
	// Gradients are references of the derivatives by each input, without g, likewise of a and b or of the result.
	Gradients []string
	Scale     string  // the size of the largest term of a sum that may cancel, of the operation; an expression like Reference
	Ulps      float64 // units in the last place, of the operation and of its gradients
	From, To  float64 // where the function is compared with finite differences and PyTorch
	Torch     string  // PyTorch's expression of x and y
}
