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
		op.Cast: m.casts, op.Arange: m.aranges,
		op.Uniform: m.randoms, op.Normal: m.randoms, op.Bernoulli: m.randoms,
		op.Sum: m.reductions, op.Mean: m.reductions, op.Prod: m.reductions, op.Max: m.reductions, op.Min: m.reductions,
		op.Norm1: m.reductions, op.Norm2: m.reductions, op.NormMax: m.reductions, op.NormMin: m.reductions,
		op.CountNonzero: m.reductions, op.LogSumExp: m.reductions,
		op.CumSum: m.scans, op.CumProd: m.scans, op.CumProdGrad: m.scanGrads, op.Sort: m.sorts, op.TopK: m.sorts,
		op.Tril: m.triangles, op.Triu: m.triangles, op.Gather: m.gathers, op.Scatter: m.gathers,
		op.Any: m.reductions, op.All: m.reductions, op.ArgMax: m.argReductions, op.ArgMin: m.argReductions,
		op.MatMul:  m.matMuls,
		op.Softmax: m.rowOps, op.SoftmaxGrad: m.rowOps, op.LogSoftmax: m.rowOps, op.LogSoftmaxGrad: m.rowOps,
		op.NLL: m.nlls, op.NLLGrad: m.nlls,
		op.IndexSelect: m.selections, op.IndexAdd: m.additions,
		op.SGDStep: m.steps, op.AdamStep: m.steps,
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
