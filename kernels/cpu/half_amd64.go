package cpu

import "golang.org/x/sys/cpu"

// Conversions of half precision on amd64, in half_avx2_amd64.s: the loops of half.go, for n elements, a multiple of 8. Every
// processor with AVX2 has F16C, the instructions for Float16.

//go:noescape
func fromHalfAVX2(n int, dst *float32, src *uint16)

//go:noescape
func toHalfAVX2(n int, dst *uint16, src *float32)

//go:noescape
func fromBrainAVX2(n int, dst *float32, src *uint16)

//go:noescape
func toBrainAVX2(n int, dst *uint16, src *float32)

var halfLoops = cpu.X86.HasAVX2

// The names that halfvector.go has for them. A call of a function that is known leaves its arguments on the stack.

func fromHalfLoop(n int, dst *float32, src *uint16)  { fromHalfAVX2(n, dst, src) }
func toHalfLoop(n int, dst *uint16, src *float32)    { toHalfAVX2(n, dst, src) }
func fromBrainLoop(n int, dst *float32, src *uint16) { fromBrainAVX2(n, dst, src) }
func toBrainLoop(n int, dst *uint16, src *float32)   { toBrainAVX2(n, dst, src) }
