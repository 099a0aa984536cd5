package cpu

import "golang.org/x/sys/cpu"

// In gemm_amx_amd64.s, with the instructions of AMX. k is a multiple of 16 pairs. The panel of a has 16 pairs of each row side by side, and then the next 16 of each
// row; that of b is as for other micro-kernels.

//go:noescape
func tile32x32BF16AMX(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile32x32FP16AMX(k int, a, b, c *float32, ld int, alpha float32, add bool)

func cpuid(leaf, sub uint32) (a, b, c, d uint32)

// setTiles sets the kernels for pairs on processors with AMX: for bfloat16, and for float16 where there is an instruction for it.
func setTiles() {
	x := &cpu.X86
	if !x.HasAMXTile || !x.HasAMXBF16 || !wideVectors() || !allowTiles() {
		return
	}
	pairKernels[brainHalf] = tilesOfPairs("32x32 AMX-BF16", tile32x32BF16AMX)
	if hasAMXFP16() {
		pairKernels[float16Half] = tilesOfPairs("32x32 AMX-FP16", tile32x32FP16AMX)
	}
}

func tilesOfPairs(name string, loop tileLoop[float32]) *pairLoops {
	tile := microkernel[float32]{name: name, mr: 32, nr: 32, tile: loop}
	return &pairLoops{matMulKernels[float32]{wide: tile, narrow: tile, pack: kernels32.pack}, true}
}

// hasAMXFP16 reports whether there is TDPFP16PS, which package x/sys/cpu does not say.
func hasAMXFP16() bool {
	if last, _, _, _ := cpuid(0, 0); last < 7 {
		return false
	}
	if last, _, _, _ := cpuid(7, 0); last < 1 {
		return false
	}
	a, _, _, _ := cpuid(7, 1)
	return a&(1<<21) != 0
}
