package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The lists of rows, in the order of package op.

func fillRows() []op.Row {
	zeroTo := func(f kernel0[float32]) func(accessor[float32]) op.Func {
		return func(l accessor[float32]) op.Func { return nullary(l, f) }
	}
	wide := func(l accessor[float64]) op.Func { return nullary(l, fill[float64]) }
	filler := row(op.Fill, floats(zeroTo(fill[float32]), wide),
		integers(
			func(l accessor[int64]) op.Func { return nullary(l, fill[int64]) },
			func(l accessor[int32]) op.Func { return nullary(l, fill[int32]) },
			func(l accessor[uint8]) op.Func { return nullary(l, fill[uint8]) }),
		boolean(func(l accessor[uint8]) op.Func { return nullary(l, fill[uint8]) }))
	return []op.Row{
		filler,
		{Op: op.Copy, Funcs: bySize(move[uint8](), move[uint16](), move[uint32](), move[uint64]())},
		row(op.Cast,
			floats(castFrom[float32], castFrom[float64]),
			integers(castFrom[int64], castFrom[int32], castFrom[uint8]),
			boolean(castFrom[uint8])),
		row(op.Arange,
			floats(arange[float32], arange[float64]),
			integers(arange[int64], arange[int32], arange[uint8])),
		row(op.Uniform, floats(
			func(l accessor[float32]) op.Func { return random(l, uniform[float32]) },
			func(l accessor[float64]) op.Func { return random(l, uniform[float64]) })),
		row(op.Normal, floats(
			func(l accessor[float32]) op.Func { return random(l, normal[float32]) },
			func(l accessor[float64]) op.Func { return random(l, normal[float64]) })),
		row(op.Bernoulli, floats(
			func(l accessor[float32]) op.Func { return random(l, bernoulli[float32]) },
			func(l accessor[float64]) op.Func { return random(l, bernoulli[float64]) }),
			boolean(func(accessor[uint8]) op.Func { return random(boolAccessor(), bernoulli[float32]) })),
		row(op.Dropout, floats(droppedOut[float32], droppedOut[float64])),
	}
}

func unaryRows() []op.Row {
	number := func(id op.ID, f kernel1[float32, float32], g kernel1[float64, float64],
		l kernel1[int64, int64], i kernel1[int32, int32], u kernel1[uint8, uint8]) op.Row {
		return row(id, floats(one(f), one(g)), integers(one(l), one(i), one(u)))
	}
	return []op.Row{
		number(op.Neg, neg[float32], neg[float64], neg[int64], neg[int32], neg[uint8]),
		number(op.Abs, absolute[float32], absolute[float64], absolute[int64], absolute[int32], absolute[uint8]),
		number(op.Sign, sign[float32], sign[float64], sign[int64], sign[int32], sign[uint8]),
		number(op.ReLU, vectorOne(vector.relu, 8, relu[float32]), relu[float64], relu[int64], relu[int32], relu[uint8]),
		number(op.AddScalar, vectorScalar(vector.addScalar, addScalar[float32]),
			addScalar[float64], addScalar[int64], addScalar[int32], addScalar[uint8]),
		number(op.MulScalar, vectorScalar(vector.mulScalar, mulScalar[float32]),
			mulScalar[float64], mulScalar[int64], mulScalar[int32], mulScalar[uint8]),
		floatOne(op.DivScalar, vectorScalar(vector.divScalar, divScalar[float32]), divScalar[float64]),
		number(op.Clamp, clamp[float32], clamp[float64], clamp[int64], clamp[int32], clamp[uint8]),
		floatOne(op.Exp, vectorOne(vector.exp, 4, mapped[float32](expNarrow)), mapped[float64](math.Exp)),
		floatOne(op.Log, mapped[float32](math.Log), mapped[float64](log64)),
		floatOne(op.Sqrt, sqrt[float32], sqrt[float64]),
		floatOne(op.Rsqrt, rsqrt[float32], rsqrt[float64]),
		floatOne(op.Reciprocal, reciprocal[float32], reciprocal[float64]),
		floatOne(op.Sin, mapped[float32](math.Sin), mapped[float64](math.Sin)),
		floatOne(op.Cos, mapped[float32](math.Cos), mapped[float64](math.Cos)),
		floatOne(op.Tanh, vectorOne(vector.tanh, 4, mapped[float32](tanhNarrow)), mapped[float64](math.Tanh)),
		floatOne(op.Sigmoid, vectorOne(vector.sigmoid, 4, mapped[float32](sigmoidNarrow)), mapped[float64](sigmoid64)),
		floatOne(op.LeakyReLU, leakyReLU[float32], leakyReLU[float64]),
		floatOne(op.GELU, vectorOne(vector.gelu, 4, mapped[float32](gelu32)), mapped[float64](gelu64)),
		floatOne(op.GELUTanh, vectorOne(vector.geluTanh, 4, mapped[float32](geluTanh32)), mapped[float64](geluTanh64)),
		floatOne(op.SiLU, vectorOne(vector.silu, 4, mapped[float32](silu32)), mapped[float64](silu64)),
		floatOne(op.Softplus, softplus[float32], softplus[float64]),
		number(op.PowScalar, powScalar[float32], powScalar[float64], intPowScalar[int64], intPowScalar[int32], intPowScalar[uint8]),
		row(op.Not, floats(one8(not[float32]), one8(not[float64])),
			integers(one8(not[int64]), one8(not[int32]), one8(not[uint8])), boolean(one8(not[uint8]))),
	}
}

func gradRows() []op.Row {
	return []op.Row{
		floatTwo(op.ReLUGrad, vectorTwo(vector.reluGrad, 8, reluGrad[float32]), reluGrad[float64]),
		floatTwo(op.LeakyReLUGrad, leakyReLUGrad[float32], leakyReLUGrad[float64]),
		floatTwo(op.SigmoidGrad, sigmoidGrad[float32], sigmoidGrad[float64]),
		floatTwo(op.TanhGrad, tanhGrad[float32], tanhGrad[float64]),
		floatTwo(op.GELUGrad, vectorTwo(vector.geluGrad, 4, mappedGrad[float32](geluDerivative32)),
			mappedGrad[float64](geluDerivative64)),
		floatTwo(op.GELUTanhGrad, vectorTwo(vector.geluTanhGrad, 4, mappedGrad[float32](geluTanhDerivative32)),
			mappedGrad[float64](geluTanhDerivative64)),
		floatTwo(op.SiLUGrad, vectorTwo(vector.siluGrad, 4, mappedGrad[float32](siluDerivative32)),
			mappedGrad[float64](siluDerivative64)),
		floatTwo(op.SoftplusGrad, softplusGrad[float32], softplusGrad[float64]),
	}
}

func binaryRows() []op.Row {
	number := func(id op.ID, f kernel2[float32, float32, float32], g kernel2[float64, float64, float64],
		l kernel2[int64, int64, int64], i kernel2[int32, int32, int32], u kernel2[uint8, uint8, uint8]) op.Row {
		return row(id, floats(two(f), two(g)), integers(two(l), two(i), two(u)))
	}
	product := number(op.Mul, vectorTwo(vector.mul, 8, mul[float32]), mul[float64], mul[int64], mul[int32], mul[uint8])
	product.Funcs[dtype.Bool] = two(and)(accessorOf[uint8](dtype.Bool))
	return []op.Row{
		number(op.Add, add32(vector.add), add[float64], add[int64], add[int32], add[uint8]),
		number(op.Sub, vectorTwo(vector.sub, 8, sub[float32]), sub[float64], sub[int64], sub[int32], sub[uint8]),
		product,
		number(op.Maximum, maximum[float32], maximum[float64], maximum[int64], maximum[int32], maximum[uint8]),
		number(op.Minimum, minimum[float32], minimum[float64], minimum[int64], minimum[int32], minimum[uint8]),
		floatTwo(op.Div, vectorTwo(vector.div, 8, div[float32]), div[float64]),
		number(op.Pow, pow[float32], pow[float64], intPow[int64], intPow[int32], intPow[uint8]),
		row(op.And, boolean(two(and))),
		row(op.Or, boolean(two(or))),
	}
}

func lossRows() []op.Row {
	return []op.Row{
		lossRow(op.SquaredError, squaredError), lossRow(op.SmoothL1, smoothL1), lossRow(op.BCE, bce),
		lossRow(op.BCELogits, bceLogits), lossRow(op.KLDiv, klDiv),
		lossGradRow(op.SquaredErrorGrad, squaredErrorGrad), lossGradRow(op.SmoothL1Grad, smoothL1Grad), lossGradRow(op.BCEGrad, bceGrad),
		lossGradRow(op.BCELogitsGrad, bceLogitsGrad), lossGradRow(op.KLDivGrad, klDivGrad),
	}
}

func compareRows() []op.Row {
	compare := func(id op.ID, f kernel2[uint8, float32, float32], g kernel2[uint8, float64, float64],
		l kernel2[uint8, int64, int64], i kernel2[uint8, int32, int32], u kernel2[uint8, uint8, uint8]) op.Row {
		return row(id, floats(two8(f), two8(g)), integers(two8(l), two8(i), two8(u)), boolean(two8(u)))
	}
	return []op.Row{
		compare(op.Eq, eq[float32], eq[float64], eq[int64], eq[int32], eq[uint8]),
		compare(op.Ne, ne[float32], ne[float64], ne[int64], ne[int32], ne[uint8]),
		compare(op.Lt, lt[float32], lt[float64], lt[int64], lt[int32], lt[uint8]),
		compare(op.Le, le[float32], le[float64], le[int64], le[int32], le[uint8]),
		compare(op.Gt, gt[float32], gt[float64], gt[int64], gt[int32], gt[uint8]),
		compare(op.Ge, ge[float32], ge[float64], ge[int64], ge[int32], ge[uint8]),
		{Op: op.Where, Funcs: bySize(choose[uint8](), choose[uint16](), choose[uint32](), choose[uint64]())},
	}
}

func reduceRows() []op.Row {
	return []op.Row{
		row(op.Sum,
			floats(same(sumReducer[float32]()), same(sumReducer[float64]())),
			integers(wide(intSumReducer[int64]()), wide(intSumReducer[int32]()), wide(intSumReducer[uint8]())),
			boolean(wide(intSumReducer[uint8]()))),
		row(op.Mean, floats(same(meanReducer[float32]()), same(meanReducer[float64]()))),
		row(op.Prod,
			floats(same(prodReducer[float32, float64, float32]()), same(prodReducer[float64, float64, float64]())),
			integers(wide(prodReducer[int64, int64, int64]()), wide(prodReducer[int32, int64, int64]()),
				wide(prodReducer[uint8, int64, int64]()))),
		row(op.Max,
			floats(same(maxReducer[float32]()), same(maxReducer[float64]())),
			integers(same(maxReducer[int64]()), same(maxReducer[int32]()), same(maxReducer[uint8]()))),
		row(op.Min,
			floats(same(minReducer[float32]()), same(minReducer[float64]())),
			integers(same(minReducer[int64]()), same(minReducer[int32]()), same(minReducer[uint8]()))),
		row(op.ArgMax,
			floats(arg[float32](false), arg[float64](false)),
			integers(arg[int64](false), arg[int32](false), arg[uint8](false))),
		row(op.ArgMin,
			floats(arg[float32](true), arg[float64](true)),
			integers(arg[int64](true), arg[int32](true), arg[uint8](true))),
		row(op.Any, boolean(same(anyReducer()))),
		row(op.All, boolean(same(allReducer()))),
	}
}

func structuredRows() []op.Row {
	rowOp := func(id op.ID, f rowKernel[float32], g rowKernel[float64]) op.Row {
		return row(id, floats(
			func(l accessor[float32]) op.Func { return rowwise(l, f) },
			func(l accessor[float64]) op.Func { return rowwise(l, g) }))
	}
	return []op.Row{
		row(op.MatMul, floats(matMul[float32], matMul[float64])),
		row(op.Conv2D, floats(conv[float32], conv[float64])),
		row(op.Conv2DGradInput, floats(conv[float32], conv[float64])),
		row(op.Conv2DGradWeight, floats(conv[float32], conv[float64])),
		rowOp(op.Softmax, softmax[float32], softmax[float64]),
		rowOp(op.SoftmaxGrad, softmaxGrad[float32], softmaxGrad[float64]),
		rowOp(op.LogSoftmax, logSoftmax[float32], logSoftmax[float64]),
		rowOp(op.LogSoftmaxGrad, logSoftmaxGrad[float32], logSoftmaxGrad[float64]),
		row(op.NLL, floats(nll[float32], nll[float64])),
		row(op.NLLGrad, floats(nllGrad[float32], nllGrad[float64])),
		row(op.CrossEntropy, floats(
			func(l accessor[float32]) op.Func { return entropy(l, false) },
			func(l accessor[float64]) op.Func { return entropy(l, false) })),
		row(op.CrossEntropyGrad, floats(
			func(l accessor[float32]) op.Func { return entropy(l, true) },
			func(l accessor[float64]) op.Func { return entropy(l, true) })),
		row(op.Attention, floats(attend[float32], attend[float64])),
		row(op.AttentionGrad, floats(attendGrad[float32], attendGrad[float64])),
		{Op: op.IndexSelect, Funcs: bySize(
			indexSelect[uint8](), indexSelect[uint16](), indexSelect[uint32](), indexSelect[uint64]())},
		row(op.IndexAdd, floats(indexAdd[float32], indexAdd[float64])),
	}
}

func normRows() []op.Row {
	return []op.Row{
		row(op.RowNorm, floats(rowNormalizer[float32](false), rowNormalizer[float64](false))),
		row(op.RowNormGrad, floats(rowNormalizer[float32](true), rowNormalizer[float64](true))),
		row(op.NormSums, floats(normSums[float32], normSums[float64])),
		row(op.ChannelStats, floats(channelStats[float32], channelStats[float64])),
		row(op.ChannelNorm, floats(channelNormalizer[float32](false), channelNormalizer[float64](false))),
		row(op.ChannelNormGrad, floats(channelNormalizer[float32](true), channelNormalizer[float64](true))),
	}
}

func gatherRows() []op.Row {
	return []op.Row{
		{Op: op.Gather, Funcs: bySize(gather[uint8](), gather[uint16](), gather[uint32](), gather[uint64]())},
		{Op: op.Scatter, Funcs: bySize(scatter[uint8](), scatter[uint16](), scatter[uint32](), scatter[uint64]())},
		row(op.ScatterAdd, floats(scatterAdd[float32], scatterAdd[float64])),
		row(op.EmbeddingBag, floats(embeddingBag[float32], embeddingBag[float64])),
		row(op.EmbeddingBagGrad, floats(embeddingBagGrad[float32], embeddingBagGrad[float64])),
	}
}
