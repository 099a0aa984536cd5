package elementwise

import "slices"

// Ops are the operations, in the order of their identifiers. The rows stand in the files of their families.
var Ops = slices.Concat(arithmetic, functions, activations, conditions)

// jumps is why an operation has no gradient.
const jumps = "the result is constant between the places where it jumps"
