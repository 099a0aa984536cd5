// Package cpu has the kernels for host and simulated devices: all operations of package op, for all types, in Go and a
// little assembly. It needs no cgo, and is the specification that kernels for GPUs are compared with.
//
// # From a row to a loop
//
// Rows (rows.go) is the list of all kernels. A kernel is a function on slices: add(dst, a, b). It knows nothing of strides,
// of half precision, or of threads. Drivers turn such functions into what a Row holds:
//
//	elementwise.go   element-wise operations, of up to three inputs; words.go has vectors for types other than float32, castwords.go conversions, compare.go comparisons, divide.go quotients of int64
//	copy.go          those that only move bits; transpose.go those of them that exchange dimensions
//	reduce.go        reductions: run by run (reduceinner.go) or row by row (reduceouter.go), several rows by one call (reducerows.go)
//	softmax.go       operations on rows
//	matmul.go        matrix products: matgemm.go in general, gemv.go for few rows
//	norm.go          normalisations: rownorm.go (normforward.go, normgrad.go); normsums.go, channelstats.go, channelnorm.go; by slicemath.go
//	conv.go          convolutions: convgemm.go in general, convdirect.go for groups of few channels,
//	                 winograd.go for 3x3 and 5x5, convshift.go for others of float32
//	gemm.go          the blocked product in general, of matrices and of convolutions
//	gemmsmall.go     small products, on operands as they lie
//	plane.go         pooling (pool.go, poolrows.go; gradients poolterms.go) and resampling (sample.go)
//	index.go, gather.go, scatter.go, bag.go, nll.go, random.go, optimize.go, argreduce.go   the others
//
// All drivers stand on the same three ideas:
//
//   - A loop (loop.go) is the iteration over all elements of a call's views, after simplification (kernels/internal/loops):
//     dimensions are flipped, sorted and joined, so that what lies straight in memory is one long dimension however the views
//     were shaped.
//   - An accessor (accessor.go) is how an operand is read and written as the type of computation. Contiguous memory of that type is
//     used as it is; everything else goes through a chunk of 1024 elements in scratch memory, which stays in the
//     first-level cache. Float16 and BFloat16 are computed in float32 this way and rounded once.
//   - A job (parallel.go) is a range of work that may be cut anywhere. Small work runs on the caller's goroutine and
//     allocates nothing; large work is cut into pieces for up to GOMAXPROCS goroutines.
//
// # Reproducible results
//
// A result depends on the call alone: not on the number of processors, nor on which worker did what, nor on where in
// memory the operands lie. Sums are cut into blocks whose sizes come from the shape, and block sums are added in order. A
// vector loop gives the same bits as the Go loop that finishes its last elements. Random numbers are a function of key,
// offset and place (philox.go). Between processors of different kinds only matrix products differ, where products are
// fused into sums; functions of float32 do not: the loops on AVX2 and the functions in Go are made from the same programs (gen),
// with products fused into sums where a program says so, and in Go by fma32. So are exp, expm1, log, log1p, tanh and sigmoid of float64; the others of float64 are package math's, and our own where these lose digits.
//
// # Accuracy
//
// Functions of float32 are computed in float32, within two units in the last place of the exact value; sigmoid and the gradients of LogAddExp within 2.4, tan 2.8, silu 3.1,
// mish and the tanh approximation of gelu 4, erfc 5.6 and gelu 6.3, where the value is small beside what it is made of; LogAddExp near 0
// within two of the greater input, and the logarithm of the gamma function of negative numbers, and its derivative, within one of the greater of the value and 1. Powers, the inverses of hyperbolic functions, that logarithm and its derivative are computed in float64 and rounded once. Remainders are exact. The list is in functions_test.go, whose test looks at every 61st number in full tests, or at all. Functions that are not there are computed
// in float64 and rounded once.
//
// Functions of float64 are within two units in the last place, those that are programs within one, sinh and log10 within 2.2: sine, cosine and tangent for every argument (trigonometric.go), the normal
// distribution function also where it is small, and the logit beside its zero (math.go, special.go). Erfinv is within 4.5, and Lgamma within 9 beside its zeros; beside zeros Lgamma and
// Digamma are exact to some 4e-16 alone. GPUs take multiples of pi/2 off float64 angles in fewer digits: beside a zero a sine is exact to about 1e-31 there.
//
// Sums of floats accumulate in float64. Matrix products accumulate in their own type (half precision in
// float32), and so do convolutions, but for those of 3x3 and 5x5 that winograd.go computes in tiles: their largest error is about 1e-5 of the
// root of the mean square of all results, ten times that of a sum of products; tests allow 5e-5. host.Device.SetExactConvolutions turns
// the tiles off.
//
// # Assembly
//
// The files *_amd64.s replace loops by vector instructions where a processor has them: AVX2 (with FMA and F16C, which come
// with it) and, for matrix products and functions, AVX-512; those on arm64 are of NEON, which all such processors have. Each function's specification is a Go loop, named in the comment, which runs
// on all other processors and which tests compare it with. Assembly is called through tables of functions (vectorLoops,
// matMulKernels) that are set when the package starts. The micro-kernels of matrix products, which repeat themselves for types, widths
// and steps, the transforms of winograd.go, the functions of float32 and float64, arithmetic, conversions and reductions over several rows are written by a generator in the folder gen (avo,
// in a module of its own). For arm64 it writes functions and matrix products anew (functions_neon_arm64.s, gemm_neon_arm64.s), and translates all other loops from
// those for AVX2, one vector of 32 bytes to two of 16 (loops_neon_arm64.s): so there is one source of a loop, and the same bits.
//
// # Memory
//
// Kernels never allocate device memory. Packed matrices and block sums come from pools of Go memory. Device memory is seen
// as Go slices by memory.go, the only file with unsafe code.
package cpu

//go:generate go run -C gen . -set avx2 -out ../gemm_avx2_amd64.s
//go:generate go run -C gen . -set avx512 -out ../gemm_avx512_amd64.s
//go:generate go run -C gen . -set bf16 -out ../gemm_bf16_amd64.s
//go:generate go run -C gen . -set unpacked -out ../gemmsmall_avx2_amd64.s
//go:generate go run -C gen . -set unpacked512 -out ../gemmsmall_avx512_amd64.s
//go:generate go run -C gen . -set arithmetic -out ../arithmetic_avx2_amd64.s
//go:generate go run -C gen . -set winograd -out ../winograd_avx2_amd64.s
//go:generate go run -C gen . -set conv -out ../conv_avx2_amd64.s
//go:generate go run -C gen . -set conv512 -out ../conv_avx512_amd64.s
//go:generate go run -C gen . -set pool -out ../poolnumbered_avx2_amd64.s
//go:generate go run -C gen . -set reductions -out ../reductions_avx2_amd64.s
//go:generate go run -C gen . -set words -out ../words_avx2_amd64.s
//go:generate go run -C gen . -set functions -out ../functions_avx2_amd64.s
//go:generate go run -C gen . -set functions512 -out ../functions_avx512_amd64.s
//go:generate go run -C gen . -set neon -out ../functions_neon_arm64.s
//go:generate go run -C gen . -set neonproducts -out ../gemm_neon_arm64.s
//go:generate go run -C gen . -set neonloops -out ../loops_neon_arm64.s
