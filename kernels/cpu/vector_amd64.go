package cpu

import "golang.org/x/sys/cpu"

// Loops on slices of float32 on amd64: arithmetic_avx2_amd64.s has arithmetic, vector_avx2_amd64.s reductions, and optimize_avx2_amd64.s steps of
// optimizers, for multiples of 8 elements; functions_amd64.go and functions512_amd64.go have those of mathematics. None is called for 0 elements. All give the same bits as the Go loops that they replace, so that it does not matter which elements are left
// to those.

//go:noescape
func addAVX2(n int, dst, a, b *float32)

//go:noescape
func subAVX2(n int, dst, a, b *float32)

//go:noescape
func mulAVX2(n int, dst, a, b *float32)

//go:noescape
func divAVX2(n int, dst, a, b *float32)

//go:noescape
func maximumAVX2(n int, dst, a, b *float32)

//go:noescape
func minimumAVX2(n int, dst, a, b *float32)

//go:noescape
func addScalarAVX2(n int, dst, a *float32, s float32)

//go:noescape
func mulScalarAVX2(n int, dst, a *float32, s float32)

//go:noescape
func divScalarAVX2(n int, dst, a *float32, s float32)

//go:noescape
func reluAVX2(n int, dst, a *float32)

//go:noescape
func reluGradAVX2(n int, dst, a, b *float32)

//go:noescape
func sumAVX2(n int, v *float32) float64

//go:noescape
func squareSumsAVX2(n int, v *float32) (a, b, c, d float64)

//go:noescape
func prodAVX2(n int, v *float32) float64

//go:noescape
func mergeSumAVX2(n int, acc *float64, row *float32)

// Those over several rows are in reductions_avx2_amd64.s.

//go:noescape
func mergeSumsAVX2(fours, n int, acc *float64, rows *float32, ld int)

//go:noescape
func mergeProdsAVX2(fours, n int, acc *float64, rows *float32, ld int)

//go:noescape
func mergeMaxesAVX2(fours, n int, acc, rows *float32, ld int)

//go:noescape
func mergeMinsAVX2(fours, n int, acc, rows *float32, ld int)

//go:noescape
func mergeMaxesFloat64AVX2(fours, n int, acc, rows *float64, ld int)

//go:noescape
func mergeMinsFloat64AVX2(fours, n int, acc, rows *float64, ld int)

//go:noescape
func mergeMaxesInt64AVX2(fours, n int, acc, rows *int64, ld int)

//go:noescape
func mergeMinsInt64AVX2(fours, n int, acc, rows *int64, ld int)

//go:noescape
func mergeMaxesUint8AVX2(fours, n int, acc, rows *uint8, ld int)

//go:noescape
func mergeMinsUint8AVX2(fours, n int, acc, rows *uint8, ld int)

//go:noescape
func maxRowsUint8AVX2(rows, n int, v *uint8, ld int, to *uint8)

//go:noescape
func minRowsUint8AVX2(rows, n int, v *uint8, ld int, to *uint8)

//go:noescape
func mergeSumsInt64AVX2(fours, n int, acc, rows *int64, ld int)

//go:noescape
func mergeSumsUint8AVX2(fours, n int, acc *int64, rows *uint8, ld int)

//go:noescape
func sumRowsAVX2(rows, n int, v *float32, ld int, to *float64)

//go:noescape
func maxRowsAVX2(rows, n int, v *float32, ld int, to *float32)

//go:noescape
func minRowsAVX2(rows, n int, v *float32, ld int, to *float32)

//go:noescape
func maxRowsFloat64AVX2(rows, n int, v *float64, ld int, to *float64)

//go:noescape
func minRowsFloat64AVX2(rows, n int, v *float64, ld int, to *float64)

//go:noescape
func maxRowsInt64AVX2(rows, n int, v *int64, ld int, to *int64)

//go:noescape
func minRowsInt64AVX2(rows, n int, v *int64, ld int, to *int64)

//go:noescape
func sumRowsInt64AVX2(rows, n int, v *int64, ld int, to *int64)

//go:noescape
func sumRowsUint8AVX2(rows, n int, v *uint8, ld int, to *int64)

//go:noescape
func evenOddAVX2(n int, even, odd, src *float32)

// Those of layer norm are in normforward_avx2_amd64.s.
//
//go:noescape
func squaresAVX2(n int, x *float32, mean float32) float64

//go:noescape
func normalizeAVX2(n int, dst, x, w, b *float32, mean, rstd float32)

// Those of layer norm's gradients are in normgrad_avx2_amd64.s.

//go:noescape
func normDotsAVX2(n int, grad, w, x *float32, c *normRow, sums *[2]float64)

//go:noescape
func normGradsAVX2(n int, dst, grad, w, x *float32, c *normRow)

//go:noescape
func normSumsAVX2(rows, n int, grad, x *float32, ld int, mean, rstd *float32, products, sums *float64)

//go:noescape
func mergeMaxAVX2(n int, acc, row *float32)

//go:noescape
func mergeMinAVX2(n int, acc, row *float32)

//go:noescape
func maxAVX2(n int, v *float32) float32

//go:noescape
func minAVX2(n int, v *float32) float32

// Those of exchanged dimensions are in transpose_avx2_amd64.s.
//
//go:noescape
func transpose8AVX2(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int)

//go:noescape
func transpose16AVX2(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int)

//go:noescape
func transpose32AVX2(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int)

//go:noescape
func transpose64AVX2(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int)

// moveRowsAVX2 is in rows_avx2_amd64.s.
//
//go:noescape
func moveRowsAVX2(rows int, dst *byte, to int, src *byte, from, n int)

// Those of pooling are in poolrows_avx2_amd64.s.
//
//go:noescape
func averagePlacesAVX2(n int, dst, src *float32, places *int32, count int, divisor float64)

//go:noescape
func mostPlacesAVX2(n int, dst *float32, numbers *int32, src *float32, places *int32, count int, starts *int32, first int32)

//go:noescape
func evenOddRowsAVX2(rows, n int, even, odd *float32, to int, src *float32, from int)

// Those of gradients of pooling are in poolgrad_avx2_amd64.s, and in poolnumbered_avx2_amd64.s those of max pooling.
//
//go:noescape
func poolNumberedAVX2(rows, half int, dst, src *float32, numbers *uint8, terms *poolTerm)

//go:noescape
func padResultsAVX2(rows, n int, values *float32, numbers *uint8, pitch int, src *float32, from *uint8)

//go:noescape
func poolSharedAVX2(rows, half int, dst, src *float32, terms *poolTerm)

// tapsAVX2 and tapDotsAVX2 are in convtaps_avx2_amd64.s, tapsAVX512 and tapDotsAVX512 in convtaps_avx512_amd64.s.
//
//go:noescape
func tapsAVX2(c *tapCall)

//go:noescape
func tapDotsAVX2(c *dotCall)

//go:noescape
func tapsAVX512(c *tapCall)

//go:noescape
func tapDotsAVX512(c *dotCall)

// tapsVector is vector.taps on AVX-512, which is for rows of sixteen columns and more.
func tapsVector(c *tapCall) {
	if c.columns < 16 {
		tapsAVX2(c)
		return
	}
	tapsAVX512(c)
}

//go:noescape
func dotWideAVX2(n int, a, b *float32) float64

//go:noescape
func expSumAVX2(n int, dst, a *float32, s float32) float64

//go:noescape
func expSumAVX512(n int, dst, a *float32, s float32) float64

//go:noescape
func sgdAVX2(n int, p, buf, grad *float32, c *sgdScalars[float32])

//go:noescape
func adamAVX2(n int, p, m, v, grad *float32, c *adamScalars[float32])

// philoxAVX2 is in philox_avx2_amd64.s; n is the number of blocks.
//
//go:noescape
func philoxAVX2(n int, dst *uint32, key, first uint64, s uint32)

// Those of other types, and conversions, are in words_avx2_amd64.s.

//go:noescape
func addFloat64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func mulFloat64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func divFloat64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func sqrtFloat64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func maximumFloat64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func minimumFloat64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func absFloat64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func negFloat64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func absInt64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func negInt64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func absInt32AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func negInt32AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func addInt64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func subInt64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func addInt32AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func subInt32AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func mulInt32AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func mulInt64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func maximumInt64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func minimumInt64AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func maximumInt32AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func minimumInt32AVX2(n int, dst, a, b *byte, step int)

//go:noescape
func smallInt64AVX2(n int, v *byte) int

//go:noescape
func fmodSmallAVX2(n int, dst, a, b *byte)

//go:noescape
func remainderSmallAVX2(n int, dst, a, b *byte)

//go:noescape
func floorDivideSmallAVX2(n int, dst, a, b *byte)

//go:noescape
func logicAVX2(n int, dst, a, b *byte, m *[4]uint64)

//go:noescape
func lessFloat32AVX2(n int, dst, a, b *byte)

//go:noescape
func lessEqualFloat32AVX2(n int, dst, a, b *byte)

//go:noescape
func equalFloat32AVX2(n int, dst, a, b *byte)

//go:noescape
func unequalFloat32AVX2(n int, dst, a, b *byte)

//go:noescape
func lessFloat64AVX2(n int, dst, a, b *byte)

//go:noescape
func lessEqualFloat64AVX2(n int, dst, a, b *byte)

//go:noescape
func equalFloat64AVX2(n int, dst, a, b *byte)

//go:noescape
func unequalFloat64AVX2(n int, dst, a, b *byte)

//go:noescape
func lessInt64AVX2(n int, dst, a, b *byte)

//go:noescape
func lessEqualInt64AVX2(n int, dst, a, b *byte)

//go:noescape
func equalInt64AVX2(n int, dst, a, b *byte)

//go:noescape
func unequalInt64AVX2(n int, dst, a, b *byte)

//go:noescape
func lessInt32AVX2(n int, dst, a, b *byte)

//go:noescape
func lessEqualInt32AVX2(n int, dst, a, b *byte)

//go:noescape
func equalInt32AVX2(n int, dst, a, b *byte)

//go:noescape
func unequalInt32AVX2(n int, dst, a, b *byte)

//go:noescape
func choose8AVX2(n int, dst, a, b, c *byte)

//go:noescape
func choose16AVX2(n int, dst, a, b, c *byte)

//go:noescape
func choose32AVX2(n int, dst, a, b, c *byte)

//go:noescape
func choose64AVX2(n int, dst, a, b, c *byte)

//go:noescape
func uint8ToInt32AVX2(n int, dst, src *byte)

//go:noescape
func uint8ToFloat32AVX2(n int, dst, src *byte)

//go:noescape
func int32ToFloat32AVX2(n int, dst, src *byte)

//go:noescape
func int32ToInt64AVX2(n int, dst, src *byte)

//go:noescape
func int32ToFloat64AVX2(n int, dst, src *byte)

//go:noescape
func float32ToFloat64AVX2(n int, dst, src *byte)

//go:noescape
func float64ToFloat32AVX2(n int, dst, src *byte)

//go:noescape
func int64ToInt32AVX2(n int, dst, src *byte)

//go:noescape
func int32ToUint8AVX2(n int, dst, src *byte)

//go:noescape
func float32ToBoolAVX2(n int, dst, src *byte)

//go:noescape
func int32ToBoolAVX2(n int, dst, src *byte)

//go:noescape
func int64ToBoolAVX2(n int, dst, src *byte)

//go:noescape
func float32ToInt32AVX2(n int, dst, src *byte) int

//go:noescape
func sumFloat64AVX2(n int, v *float64) float64

//go:noescape
func mergeProdAVX2(n int, acc *float64, row *float32)

//go:noescape
func channelFormsAVX2(n int, y, x *float32, c *channelRow)

//go:noescape
func channelGradsAVX2(n int, y, grad, x *float32, c *channelRow)

func init() {
	if !cpu.X86.HasAVX2 {
		return
	}
	vector = vectorLoops{
		functions: cpu.X86.HasFMA,
		add:       addAVX2, sub: subAVX2, mul: mulAVX2, div: divAVX2, maximum: maximumAVX2, minimum: minimumAVX2,
		addScalar: addScalarAVX2, mulScalar: mulScalarAVX2, divScalar: divScalarAVX2,
		relu: reluAVX2, reluGrad: reluGradAVX2,
		sum: sumAVX2, squareSums: squareSumsAVX2, prod: prodAVX2, mergeSum: mergeSumAVX2, max: maxAVX2, min: minAVX2,
		mergeSums: mergeSumsAVX2, mergeProds: mergeProdsAVX2, mergeMaxes: mergeMaxesAVX2, mergeMins: mergeMinsAVX2, mergeMaxesWide: mergeMaxesFloat64AVX2, mergeMinsWide: mergeMinsFloat64AVX2,
		sumRows: sumRowsAVX2, maxRows: maxRowsAVX2, minRows: minRowsAVX2,
		evenOdd: evenOddAVX2, mergeMax: mergeMaxAVX2, mergeMin: mergeMinAVX2,
		squares: squaresAVX2, normalize: normalizeAVX2, channelForms: channelFormsAVX2, channelGrads: channelGradsAVX2,
		normDots: normDotsAVX2, normGrads: normGradsAVX2, normSums: normSumsAVX2,
		averagePlaces: averagePlacesAVX2, mostPlaces: mostPlacesAVX2, evenOddRows: evenOddRowsAVX2,
		poolNumbered: poolNumberedAVX2, poolShared: poolSharedAVX2, padResults: padResultsAVX2,
		sgd: sgdAVX2, adam: adamAVX2,
		philox: philoxAVX2, moveRows: moveRowsAVX2,
	}
	vector.setWords()
	if cpu.X86.HasFMA {
		vector.dot, vector.expSum = dotWideAVX2, expSumAVX2
		vector.taps, vector.tapDots, vector.tapsAtOnce = tapsAVX2, tapDotsAVX2, 3
		if cpu.X86.HasAVX512F {
			vector.taps, vector.tapDots, vector.tapsAtOnce = tapsVector, tapDotsAVX512, mostTaps
		}
	}
	if wideVectors() {
		vector.setAVX512()
	}
}

func (v *vectorLoops) setWords() {
	v.addWords = wordLoops{addFloat64AVX2, addInt64AVX2, addInt32AVX2}
	v.subWords = wordLoops{nil, subInt64AVX2, subInt32AVX2}
	v.mulWords = wordLoops{mulFloat64AVX2, mulInt64AVX2, mulInt32AVX2}
	v.divWords, v.sqrtWords = wordLoops{divFloat64AVX2}, wordLoops{sqrtFloat64AVX2}
	v.maxWords = wordLoops{maximumFloat64AVX2, maximumInt64AVX2, maximumInt32AVX2}
	v.minWords = wordLoops{minimumFloat64AVX2, minimumInt64AVX2, minimumInt32AVX2}
	v.small, v.divisions = smallInt64AVX2, [...]func(n int, dst, a, b *byte){fmodSmallAVX2, remainderSmallAVX2, floorDivideSmallAVX2}
	v.absWords = wordLoops{absFloat64AVX2, absInt64AVX2, absInt32AVX2}
	v.negWords = wordLoops{negFloat64AVX2, negInt64AVX2, negInt32AVX2}
	v.logic, v.truncate, v.mergeProd, v.sumWide = logicAVX2, float32ToInt32AVX2, mergeProdAVX2, sumFloat64AVX2
	v.sumRowsWhole, v.sumRowsBytes = sumRowsInt64AVX2, sumRowsUint8AVX2
	v.maxRowsWide, v.minRowsWide, v.maxRowsWhole, v.minRowsWhole = maxRowsFloat64AVX2, minRowsFloat64AVX2, maxRowsInt64AVX2, minRowsInt64AVX2
	v.mergeMaxesWhole, v.mergeMinsWhole = mergeMaxesInt64AVX2, mergeMinsInt64AVX2
	v.mergeMaxesBytes, v.mergeMinsBytes, v.maxRowsBytes, v.minRowsBytes = mergeMaxesUint8AVX2, mergeMinsUint8AVX2, maxRowsUint8AVX2, minRowsUint8AVX2
	v.mergeSumsWhole, v.mergeSumsBytes = mergeSumsInt64AVX2, mergeSumsUint8AVX2
	v.compare = comparisons{
		{lessFloat64AVX2, lessEqualFloat64AVX2, equalFloat64AVX2, unequalFloat64AVX2},
		{lessInt64AVX2, lessEqualInt64AVX2, equalInt64AVX2, unequalInt64AVX2},
		{lessInt32AVX2, lessEqualInt32AVX2, equalInt32AVX2, unequalInt32AVX2},
		{lessFloat32AVX2, lessEqualFloat32AVX2, equalFloat32AVX2, unequalFloat32AVX2},
	}
	v.choose = [...]func(n int, dst, a, b, c *byte){choose8AVX2, choose16AVX2, choose32AVX2, choose64AVX2}
	v.transpose = [...]func(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int){transpose8AVX2, transpose16AVX2, transpose32AVX2, transpose64AVX2}
	v.casts[castUint8][castInt32], v.casts[castInt32][castUint8] = uint8ToInt32AVX2, int32ToUint8AVX2
	v.casts[castUint8][castFloat32], v.casts[castInt32][castFloat32] = uint8ToFloat32AVX2, int32ToFloat32AVX2
	v.casts[castInt32][castFloat64] = int32ToFloat64AVX2
	v.casts[castInt32][castInt64], v.casts[castInt64][castInt32] = int32ToInt64AVX2, int64ToInt32AVX2
	v.casts[castFloat32][castFloat64], v.casts[castFloat64][castFloat32] = float32ToFloat64AVX2, float64ToFloat32AVX2
	v.casts[castFloat32][castBool], v.casts[castInt32][castBool], v.casts[castInt64][castBool] = float32ToBoolAVX2, int32ToBoolAVX2, int64ToBoolAVX2
}
