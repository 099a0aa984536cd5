package elementwise

import "slices"

// Ops are the operations, in the order of their identifiers. The rows stand in the files of their families.
var Ops = slices.Concat(arithmetic, bitwise, functions, activations, conditions)

// jumps is why an operation has no gradient.
const jumps = "the result is constant between the places where it jumps"

// What several operations have in Differs.
const (
	refusesBools             = "bools are refused"
	takesNoMemory            = "the gradient, which is 0, takes no memory"
	comparesNumbersAsTheyAre = "a number (`EqScalar` and its like) that uint8 does not hold is compared as it is"
	shiftsLeaveTheSign       = "the number of places wraps to the type; a negative one, or as many as there are bits, leaves nothing but the sign of what is shifted to the right, as in PyTorch 2; 1.13 leaves it to the processor (compared in `tensor/testdata/bitwise.json`)"
	divisorsMayBe0           = "integers: 0 where the divisor is 0 (an error on PyTorch's processor, undefined on its GPUs)"
)
