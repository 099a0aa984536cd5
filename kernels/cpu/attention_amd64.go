package cpu

import "golang.org/x/sys/cpu"

// The loops of columns.go for blocks of float32 whose rows have a multiple of 8 elements, in attention_avx2_amd64.s. Maxima and
// gradients are those of the Go loops; exponentials are computed in float32, within two ulps.

//go:noescape
func columnMaxAVX2(rows, width int, s, most *float32)

//go:noescape
func columnExpAVX2(rows, width int, s, most, sum *float32)

//go:noescape
func columnGradAVX2(rows, width int, p, d, delta *float32)

func init() {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		columns32 = columnLoops[float32]{columnMaxAVX2, columnExpAVX2, columnGradAVX2}
	}
}
