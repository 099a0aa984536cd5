package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// The lists of rows, but those of elementwise_gen.go.

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
		{Op: op.Where, Funcs: bySize(choose[uint8](), choose[uint16](), choose[uint32](), choose[uint64]())},
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
