// Command gen writes assembly of package cpu that repeats itself, with avo (amd64) or without (arm64, which avo does not know): the micro-kernels of matrix products, the transforms of
// Winograd's convolution, gradients of max pooling, arithmetic, conversions, reductions over several rows, and functions of float32 and float64, which it writes in Go as well. go generate ./kernels/cpu runs it. It is a module of its
// own, so that nobody who imports Cistern downloads avo.
//
//	go run . -set avx2 -out FILE        gemm_avx2_amd64.s
//	go run . -set avx512 -out FILE      gemm_avx512_amd64.s
//	go run . -set bf16 -out FILE        gemm_bf16_amd64.s
//	go run . -set unpacked -out FILE    gemmsmall_avx2_amd64.s
//	go run . -set unpacked512 -out FILE gemmsmall_avx512_amd64.s
//	go run . -set arithmetic -out FILE  arithmetic_avx2_amd64.s
//	go run . -set winograd -out FILE    winograd_avx2_amd64.s
//	go run . -set conv -out FILE        conv_avx2_amd64.s
//	go run . -set conv512 -out FILE     conv_avx512_amd64.s
//	go run . -set pool -out FILE        poolnumbered_avx2_amd64.s
//	go run . -set reductions -out FILE  reductions_avx2_amd64.s
//	go run . -set words -out FILE       words_avx2_amd64.s
//	go run . -set functions -out FILE   functions_avx2_amd64.s, with functions_gen.go and functions_amd64.go beside it
//	go run . -set functions512 -out FILE  functions_avx512_amd64.s, with functions512_amd64.go beside it
//	go run . -set neon -out FILE        functions_neon_arm64.s, with functions_arm64.go beside it
//	go run . -set neonproducts -out FILE  gemm_neon_arm64.s
//	go run . -set neonloops -out FILE   loops_neon_arm64.s, with loops_arm64.go beside it: translated from the files *_avx2_amd64.s
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"path/filepath"
	"slices"

	"github.com/mmcloughlin/avo/build"
)

// tiles are the micro-kernels of each instruction set, as microkernel.go specifies them.
var tiles = map[string][]tile{
	"avx2": slices.Concat(
		rows(6, 3, tile{typ: "float32", vectors: ymm, unroll: 4, scalars: single}),
		rows(6, 3, tile{typ: "float64", vectors: ymm, unroll: 4, scalars: double})),
	"avx512": slices.Concat(
		rows(14, 7, tile{typ: "float32", vectors: zmm, unroll: 2, scalars: single}),
		rows(14, 7, tile{typ: "float64", vectors: zmm, unroll: 2, scalars: double}),
		[]tile{
			{name: "tile8x48AVX512", typ: "float32", rows: 8, width: 3, vectors: zmm, unroll: 4, scalars: single},
		}),
	"bf16": rows(14, 7, tile{typ: "float32", vectors: zmm, unroll: 2, scalars: single, suffix: "BF16"}),
}

// rows are tiles of that many rows down to least, of which panels are made that leave none over.
func rows(most, least int, t tile) (list []tile) {
	set := map[int]string{32: "AVX2", 64: "AVX512"}[t.vectors.bytes]
	for t.rows = most; t.rows >= least; t.rows-- {
		t.name = fmt.Sprintf("tile%dx%d%s", t.rows, t.across()*t.vectors.bytes/t.scalars.bytes, cmp.Or(t.suffix, set))
		list = append(list, t)
	}
	return list
}

// arm64Sets write files for arm64.
var arm64Sets = map[string]func(file string) error{"neon": writeNEON, "neonproducts": writeProducts, "neonloops": writeLoops}

func main() {
	set := flag.String("set", "", "what to write: avx2, avx512, bf16, unpacked, unpacked512, arithmetic, winograd, conv, conv512, pool, reductions, words, functions, functions512, neon, neonproducts or neonloops")
	flag.Parse()
	list := tiles[*set]
	out := flag.Lookup("out").Value.String()
	if write := arm64Sets[*set]; write != nil {
		if err := write(out); err != nil {
			log.Fatal("gen: ", err)
		}
		return
	}
	switch {
	case *set == "arithmetic":
		generateArithmetic()
	case *set == "winograd":
		generateWinograd()
	case *set == "conv":
		generateConv()
	case *set == "unpacked":
		generateUnpacked()
	case *set == "unpacked512":
		generateUnpacked512()
	case *set == "conv512":
		generateConv512()
	case *set == "pool":
		generatePool()
	case *set == "reductions":
		generateReductions()
	case *set == "words":
		generateWords()
	case *set == "functions":
		writeFunctions(filepath.Dir(out))
	case *set == "functions512":
		writeMaskedFunctions(filepath.Dir(out))
	case list == nil:
		log.Fatalf("gen: -set is %q, want avx2, avx512, bf16, unpacked, unpacked512, arithmetic, winograd, conv, conv512, pool, reductions, words, functions, functions512, neon, neonproducts or neonloops", *set)
	}
	for _, t := range list {
		t.generate()
	}
	build.Generate()
	if *set == "bf16" {
		if err := pairProducts(out); err != nil {
			log.Fatal("gen: ", err)
		}
	}
}

// writeFunctions writes the files in Go to a folder, and leaves assembly to avo.
func writeFunctions(folder string) {
	all := functions("AVX2")
	emitVectors(all)
	if err := emitGo(filepath.Join(folder, "functions_gen.go"), all); err != nil {
		log.Fatal("gen: ", err)
	}
	if err := emitTable(filepath.Join(folder, "functions_amd64.go"), "AVX2", all); err != nil {
		log.Fatal("gen: ", err)
	}
}

// writeMaskedFunctions writes the file in Go to a folder, and leaves assembly to avo.
func writeMaskedFunctions(folder string) {
	all := functions("AVX512")
	emitMaskedVectors(all)
	if err := emitTable(filepath.Join(folder, "functions512_amd64.go"), "AVX512", all); err != nil {
		log.Fatal("gen: ", err)
	}
}
