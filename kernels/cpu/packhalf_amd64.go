package cpu

import "golang.org/x/sys/cpu"

// In packhalf_avx2_amd64.s.

//go:noescape
func pack4BrainAVX(steps int, dst *float32, width int, src *uint16, ld int)

//go:noescape
func pack4HalfAVX(steps int, dst *float32, width int, src *uint16, ld int)

//go:noescape
func copyRows6BrainAVX2(count int, dst *float32, src *uint16, ld int)

//go:noescape
func copyRows6HalfAVX2(count int, dst *float32, src *uint16, ld int)

//go:noescape
func copyRows16BrainAVX2(count int, dst *float32, src *uint16, ld int)

//go:noescape
func copyRows16HalfAVX2(count int, dst *float32, src *uint16, ld int)

func init() {
	if !cpu.X86.HasAVX2 {
		return
	}
	packHalves[brainHalf] = packHalf{pack4BrainAVX, map[int]copyHalfRows{6: copyRows6BrainAVX2, 16: copyRows16BrainAVX2}}
	packHalves[float16Half] = packHalf{pack4HalfAVX, map[int]copyHalfRows{6: copyRows6HalfAVX2, 16: copyRows16HalfAVX2}}
}
