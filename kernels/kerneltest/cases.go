package kerneltest

import (
	"fmt"
	"iter"

	"github.com/cistern-ml/cistern/kernels/op"
)

// cases are all cases of the maker's operation and type.
func (m *maker) cases() iter.Seq[*testCase] {
	if _, ok := references[m.id]; ok {
		return m.elementwise()
	}
	makers := map[op.ID]func() iter.Seq[*testCase]{
		op.Cast: m.casts, op.CastMany: m.castMany, op.AddMixed: m.mixedSums, op.Arange: m.aranges,
		op.Uniform: m.randoms, op.Normal: m.randoms, op.Bernoulli: m.randoms, op.Dropout: m.randoms,
		op.Sum: m.reductions, op.Mean: m.reductions, op.Prod: m.reductions, op.Max: m.reductions, op.Min: m.reductions,
		op.Norm1: m.reductions, op.Norm2: m.reductions, op.MeanSquare: m.reductions, op.NormMax: m.reductions, op.NormMin: m.reductions,
		op.CountNonzero: m.reductions, op.LogSumExp: m.reductions,
		op.CumSum: m.scans, op.CumProd: m.scans, op.CumProdGrad: m.scanGrads, op.Sort: m.sorts, op.TopK: m.sorts,
		op.Tril: m.triangles, op.Triu: m.triangles,
		op.Any: m.reductions, op.All: m.reductions, op.ArgMax: m.argReductions, op.ArgMin: m.argReductions,
		op.MatMul: m.matMuls, op.MatMulAct: m.matMulActs, op.LinearWeightGrad: m.weightGrads,
		op.Conv2D: m.convolutions, op.Conv2DGradInput: m.convolutions, op.Conv2DGradWeight: m.convolutions,
		op.MaxPool2D: m.pools, op.MaxPool2DGrad: m.pools, op.AvgPool2D: m.pools, op.AvgPool2DGrad: m.pools,
		op.UpsampleNearest2D: m.samples, op.UpsampleNearest2DGrad: m.samples,
		op.UpsampleBilinear2D: m.samples, op.UpsampleBilinear2DGrad: m.samples,
		op.Softmax: m.rowOps, op.SoftmaxGrad: m.rowOps, op.LogSoftmax: m.rowOps, op.LogSoftmaxGrad: m.rowOps,
		op.NLL: m.nlls, op.NLLGrad: m.nlls,
		op.CrossEntropy: m.entropies, op.CrossEntropyGrad: m.entropies,
		op.Attention: m.attentions, op.AttentionGrad: m.attentions,
		op.IndexSelect: m.selections, op.IndexAdd: m.additions,
		op.Gather: m.gathers, op.Scatter: m.gathers, op.ScatterAdd: m.gathers,
		op.EmbeddingBag: m.bags, op.EmbeddingBagGrad: m.bags,
		op.RowNorm: m.norms, op.RowNormGrad: m.norms, op.NormSums: m.norms,
		op.ChannelStats: m.norms, op.ChannelNorm: m.norms, op.ChannelNormGrad: m.norms,
		op.SGDStep: m.steps, op.AdamStep: m.steps, op.RMSPropStep: m.steps, op.AdagradStep: m.steps, op.LionStep: m.steps,
		op.GradNorm: m.gradNorms, op.ClipNorm: m.clips, op.ClipValue: m.clips,
		op.LSTMCell: m.cells, op.LSTMCellGrad: m.cells, op.GRUCell: m.cells, op.GRUCellGrad: m.cells,
		op.AmpUnscale: m.unscales, op.AmpUpdateScale: m.scaleUpdates,
	}
	if f, ok := makers[m.id]; ok {
		return f()
	}
	panic(fmt.Sprintf("kerneltest: no reference for %s: add one to references.go or cases.go", m.id))
}

// list makes a sequence of a function that emits cases, or nil for those that are not due.
func list(f func(emit func(*testCase))) iter.Seq[*testCase] {
	return func(yield func(*testCase) bool) {
		stopped := false
		f(func(c *testCase) {
			if c != nil && !stopped {
				stopped = !yield(c)
			}
		})
	}
}

// aranges are the cases of Arange.
func (m *maker) aranges() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, n := range []int{0, 1, 2, 7, 1025, 5000} {
			for _, l := range []layout{contiguous, gapped, backwards} {
				c := m.newCase()
				c.call.F, c.call.I = floats8(-2, 0.5), ints8(-7, 3)
				t := newTensor(m.d, l, n)
				c.out = []*tensor{t}
				want := make([]result, n)
				for i := range want {
					want[i] = scaled(-2+float64(i)*0.5, float64(i)*0.5)
					want[i].i = wrap(m.d, -7+int64(i)*3)
				}
				c.want = [][]result{want}
				emit(c)
			}
		}
	})
}
