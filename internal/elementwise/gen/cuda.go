package main

import (
	"fmt"
	"regexp"
)

// What kernels/cuda has of a kernel.

// CUDAOf makes operands and scalars of the CUDA expression those of the macros: a, b and c in the order of inputs, s and t.
func (k kernel) CUDAOf() string {
	e := k.CUDA
	for i := len(k.Operands) - 1; i >= 0; i-- {
		e = replaced(e, k.Operands[i], string("abc"[i]))
	}
	for i, name := range k.Scalars {
		e = replaced(e, name, string("st"[i]))
	}
	return e
}

// Macro declares its CUDA function.
func (k kernel) Macro() string {
	if k.Class.Bool {
		return []string{"TEST", "COMPARE"}[len(k.Operands)-1]
	}
	return []string{"UNARY", "BINARY", "TERNARY"}[len(k.Operands)-1]
}

// calls finds divisions and calls of functions, which take longer than loads; those of templates, with a type, do not.
var calls = regexp.MustCompile(`/|[a-z0-9_]\(`)

// Computes reports whether it takes longer than loads do.
func (k kernel) Computes() bool { return !k.Quick && calls.MatchString(k.CUDA) }

// Map makes the CUDA kernels of a type.
func (k kernel) Map() string {
	result, scalars := "T", "C"
	if k.Class.Bool {
		result = "b8"
	}
	if k.Double {
		scalars = "W"
	}
	if len(k.Operands) == 3 {
		return fmt.Sprintf("MAP3(%s_##T, fn::%s, T, %s)", k.Name, k.ID, scalars)
	}
	return fmt.Sprintf("MAP%d(%s_##T, fn::%s, %s, T, %s)", len(k.Operands), k.Name, k.ID, result, scalars)
}
