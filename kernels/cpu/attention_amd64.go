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

// rowDotsAVX2 and rowSumsAVX2, in attentionrows_avx2_amd64.s, are the rowLoops for multiples of 8: the first of rows and elements, the
// second of elements. All are at least 1.

//go:noescape
func rowDotsAVX2(n, depth int, q, rows *float32, ld int, scale float32, s *float32)

//go:noescape
func rowSumsAVX2(n, width int, p, rows *float32, ld int, acc *float32)

func init() {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		rows32 = rowLoops[float32]{rowDotsAVX2, rowSumsAVX2}
		columns32 = columnLoops[float32]{columnMaxAVX2, columnExpAVX2, columnGradAVX2}
	}
}
