package cpu

import "golang.org/x/sys/cpu"

// The loops on arm64: those of loops_neon_arm64.s, which gen translates from the ones for AVX2. They take as many elements, and give the same bits.

func init() {
	if !cpu.ARM64.HasASIMD {
		return
	}
	vector = vectorLoops{
		functions: true,
		add:       addNEON, sub: subNEON, mul: mulNEON, div: divNEON, maximum: maximumNEON, minimum: minimumNEON,
		addScalar: addScalarNEON, mulScalar: mulScalarNEON, divScalar: divScalarNEON,
		relu: reluNEON, reluGrad: reluGradNEON,
		sum: sumNEON, squareSums: squareSumsNEON, prod: prodNEON, mergeSum: mergeSumNEON, max: maxNEON, min: minNEON,
		mergeSums: mergeSumsNEON, mergeProds: mergeProdsNEON, mergeMaxes: mergeMaxesNEON, mergeMins: mergeMinsNEON, mergeMaxesWide: mergeMaxesFloat64NEON, mergeMinsWide: mergeMinsFloat64NEON,
		sumRows: sumRowsNEON, maxRows: maxRowsNEON, minRows: minRowsNEON,
		evenOdd: evenOddNEON, mergeMax: mergeMaxNEON, mergeMin: mergeMinNEON,
		squares: squaresNEON, normalize: normalizeNEON, channelForms: channelFormsNEON, channelGrads: channelGradsNEON,
		normDots: normDotsNEON, normGrads: normGradsNEON, normSums: normSumsNEON,
		averagePlaces: averagePlacesNEON, mostPlaces: mostPlacesNEON, evenOddRows: evenOddRowsNEON,
		poolNumbered: poolNumberedNEON, poolShared: poolSharedNEON, padResults: padResultsNEON,
		sgd: sgdNEON, adam: adamNEON,
		philox: philoxNEON, moveRows: moveRowsNEON,
		dot: dotWideNEON, expSum: expSumNEON,
		taps: tapsNEON, tapDots: tapDotsNEON, tapsAtOnce: 3,
	}
	vector.setWords()
	packHalves[brainHalf] = packHalf{pack4BrainNEON, map[int]copyHalfRows{6: copyRows6BrainNEON, 16: copyRows16BrainNEON}}
	packHalves[float16Half] = packHalf{pack4HalfNEON, map[int]copyHalfRows{6: copyRows6HalfNEON, 16: copyRows16HalfNEON}}
	rows32 = rowLoops[float32]{rowDotsNEON, rowSumsNEON}
	columns32 = columnLoops[float32]{columnMaxNEON, columnExpNEON, columnGradNEON}
	correlateKernels, few3x32 = []correlateKernel{{16, correlate6x16NEON}}, few3x32NEON
	everySecondRows, toEverySecond, interleaveRows = everySecondRowsNEON, toEverySecondNEON, interleaveRowsNEON
	setWinograd()
}

func setWinograd() {
	tiles := [2]microkernel[float32]{{name: "8x24 NEON", mr: 8, nr: 24, tile: tile8x24NEON}, {name: "8x16 NEON", mr: 8, nr: 16, tile: tile8x16NEON}}
	winogradTiles = [][2]microkernel[float32]{tiles}
	winogradLoops = winogradKernels{
		wide: tiles[0], narrow: tiles[1],
		image: winogradImageNEON, gradient: winogradGradientNEON,
		three: winogradForm{3, 4, winogradFilterNEON, winogradTurnedNEON, winogradResultNEON},
		five:  winogradForm{5, 2, winogradFilter5NEON, winogradTurned5NEON, winogradResult2NEON},
		taps:  winogradTapsNEON, shifts: shiftsVector, widest: 8,
	}
}

// shiftsVector is shiftsGo.
func shiftsVector(dst *float32, nr int, src *float32, offsets, chunks []int, n int) {
	if n == 8 {
		shifts8NEON(dst, nr, src, &offsets[0], len(offsets), &chunks[0], len(chunks)/2)
	} else {
		shifts4NEON(dst, nr, src, &offsets[0], len(offsets), &chunks[0], len(chunks)/2)
	}
}

func (v *vectorLoops) setWords() {
	v.addWords = wordLoops{addFloat64NEON, addInt64NEON, addInt32NEON}
	v.subWords = wordLoops{nil, subInt64NEON, subInt32NEON}
	v.mulWords = wordLoops{mulFloat64NEON, mulInt64NEON, mulInt32NEON}
	v.divWords, v.sqrtWords = wordLoops{divFloat64NEON}, wordLoops{sqrtFloat64NEON}
	v.maxWords = wordLoops{maximumFloat64NEON, maximumInt64NEON, maximumInt32NEON}
	v.minWords = wordLoops{minimumFloat64NEON, minimumInt64NEON, minimumInt32NEON}
	v.small, v.divisions = smallInt64NEON, [...]func(n int, dst, a, b *byte){fmodSmallNEON, remainderSmallNEON, floorDivideSmallNEON}
	v.absWords = wordLoops{absFloat64NEON, absInt64NEON, absInt32NEON}
	v.negWords = wordLoops{negFloat64NEON, negInt64NEON, negInt32NEON}
	v.logic, v.truncate, v.mergeProd, v.sumWide = logicNEON, float32ToInt32NEON, mergeProdNEON, sumFloat64NEON
	v.sumRowsWhole, v.sumRowsBytes = sumRowsInt64NEON, sumRowsUint8NEON
	v.maxRowsWide, v.minRowsWide, v.maxRowsWhole, v.minRowsWhole = maxRowsFloat64NEON, minRowsFloat64NEON, maxRowsInt64NEON, minRowsInt64NEON
	v.mergeMaxesWhole, v.mergeMinsWhole = mergeMaxesInt64NEON, mergeMinsInt64NEON
	v.mergeMaxesBytes, v.mergeMinsBytes, v.maxRowsBytes, v.minRowsBytes = mergeMaxesUint8NEON, mergeMinsUint8NEON, maxRowsUint8NEON, minRowsUint8NEON
	v.mergeSumsWhole, v.mergeSumsBytes = mergeSumsInt64NEON, mergeSumsUint8NEON
	v.compare = comparisons{
		{lessFloat64NEON, lessEqualFloat64NEON, equalFloat64NEON, unequalFloat64NEON},
		{lessInt64NEON, lessEqualInt64NEON, equalInt64NEON, unequalInt64NEON},
		{lessInt32NEON, lessEqualInt32NEON, equalInt32NEON, unequalInt32NEON},
		{lessFloat32NEON, lessEqualFloat32NEON, equalFloat32NEON, unequalFloat32NEON},
	}
	v.choose = [...]func(n int, dst, a, b, c *byte){choose8NEON, choose16NEON, choose32NEON, choose64NEON}
	v.transpose = [...]func(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int){transpose8NEON, transpose16NEON, transpose32NEON, transpose64NEON}
	v.casts[castUint8][castInt32], v.casts[castInt32][castUint8] = uint8ToInt32NEON, int32ToUint8NEON
	v.casts[castUint8][castFloat32], v.casts[castInt32][castFloat32] = uint8ToFloat32NEON, int32ToFloat32NEON
	v.casts[castInt32][castFloat64] = int32ToFloat64NEON
	v.casts[castInt32][castInt64], v.casts[castInt64][castInt32] = int32ToInt64NEON, int64ToInt32NEON
	v.casts[castFloat32][castFloat64], v.casts[castFloat64][castFloat32] = float32ToFloat64NEON, float64ToFloat32NEON
	v.casts[castFloat32][castBool], v.casts[castInt32][castBool], v.casts[castInt64][castBool] = float32ToBoolNEON, int32ToBoolNEON, int64ToBoolNEON
}
