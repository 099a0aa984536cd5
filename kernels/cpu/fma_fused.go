//go:build arm64 || riscv64

package cpu

// fma32 is a*b + c, rounded once: compilers for these processors make one instruction of it, which a test makes sure of.
func fma32(a, b, c float32) float32 { return a*b + c }
