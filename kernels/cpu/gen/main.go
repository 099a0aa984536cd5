// Command gen writes assembly of package cpu that repeats itself: the micro-kernels of matrix products, with avo. go generate ./kernels/cpu
// runs it. It is a module of its own, so that nobody who imports Cistern downloads avo.
//
//	go run . -set avx2 -out FILE     gemm_avx2_amd64.s
//	go run . -set avx512 -out FILE   gemm_avx512_amd64.s
package main

import (
	"flag"
	"log"

	"github.com/mmcloughlin/avo/build"
)

// tiles are the micro-kernels of each instruction set, as microkernel.go specifies them.
var tiles = map[string][]tile{
	"avx2": {
		{name: "tile6x16AVX2", typ: "float32", rows: 6, vectors: ymm, unroll: 4, scalars: single},
		{name: "tile6x8AVX2", typ: "float64", rows: 6, vectors: ymm, unroll: 4, scalars: double},
	},
	"avx512": {
		{name: "tile14x32AVX512", typ: "float32", rows: 14, vectors: zmm, unroll: 2, scalars: single},
		{name: "tile14x16AVX512", typ: "float64", rows: 14, vectors: zmm, unroll: 2, scalars: double},
	},
}

func main() {
	set := flag.String("set", "", "instruction set: avx2 or avx512")
	flag.Parse()
	list := tiles[*set]
	if list == nil {
		log.Fatalf("gen: -set is %q, want avx2 or avx512", *set)
	}
	for _, t := range list {
		t.generate()
	}
	build.Generate()
}
