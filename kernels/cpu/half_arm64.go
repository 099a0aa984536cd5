package cpu

import "golang.org/x/sys/cpu"

var halfLoops = cpu.ARM64.HasASIMD

// The names that halfvector.go has for conversions. A call of a function that is known leaves its arguments on the stack.

func fromHalfLoop(n int, dst *float32, src *uint16)  { fromHalfNEON(n, dst, src) }
func toHalfLoop(n int, dst *uint16, src *float32)    { toHalfNEON(n, dst, src) }
func fromBrainLoop(n int, dst *float32, src *uint16) { fromBrainNEON(n, dst, src) }
func toBrainLoop(n int, dst *uint16, src *float32)   { toBrainNEON(n, dst, src) }
