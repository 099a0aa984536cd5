package autograd_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

var reductions = map[string]autograd.Reduction{"mean": autograd.MeanReduction, "sum": autograd.SumReduction, "none": autograd.NoReduction}

// eachReduction adds a loss under its name and that of each reduction.
func eachReduction(name string, f func(v vars, r autograd.Reduction) variable) {
	for text, r := range reductions {
		composedFunctions[name+" "+text] = func(v vars) variable { return f(v, r) }
	}
	composedFunctions[name] = func(v vars) variable { return f(v, autograd.MeanReduction) }
}

func init() {
	const none = autograd.NoReduction
	type reduction = autograd.Reduction
	eachReduction("margin_ranking", func(v vars, r reduction) variable { return v[0].MarginRankingLoss(v[1], v[2], 0.3, r) })
	eachReduction("hinge_embedding", func(v vars, r reduction) variable { return v[0].HingeEmbeddingLoss(v[1], 0.7, r) })
	eachReduction("cosine_embedding", func(v vars, r reduction) variable { return v[0].CosineEmbeddingLoss(v[1], v[2], 0.1, r) })
	eachReduction("triplet", func(v vars, r reduction) variable {
		return v[0].TripletMarginLoss(v[1], v[2], 1, autograd.Triplet{}, r)
	})
	eachReduction("poisson", func(v vars, r reduction) variable { return v[0].PoissonNLLLoss(v[1], autograd.PoissonNLL{}, r) })
	eachReduction("gaussian", func(v vars, r reduction) variable { return v[0].GaussianNLLLoss(v[1], v[2], autograd.GaussianNLL{}, r) })
	eachReduction("soft_margin", func(v vars, r reduction) variable { return v[0].SoftMarginLoss(v[1], r) })
	eachReduction("multilabel_soft", func(v vars, r reduction) variable { return v[0].MultiLabelSoftMarginLoss(v[1], nil, r) })
	eachReduction("multi_margin", func(v vars, r reduction) variable { return v[0].MultiMarginLoss(v[1], 1, autograd.MultiMargin{}, r) })
	eachReduction("multilabel_margin", func(v vars, r reduction) variable { return v[0].MultiLabelMarginLoss(v[1], r) })
	functions := map[string]func(v vars) variable{
		"margin_ranking tie": func(v vars) variable { return v[0].MarginRankingLoss(v[1], v[2], 0.5, none) },
		"triplet swap": func(v vars) variable {
			return v[0].TripletMarginLoss(v[1], v[2], 2, autograd.Triplet{P: 1.5, Eps: 1e-3, Swap: true}, none)
		},
		"triplet same": func(v vars) variable {
			return v[0].TripletMarginLoss(v[1], v[2], 1, autograd.Triplet{Eps: 1e-300}, none)
		},
		"poisson rates": func(v vars) variable { return v[0].PoissonNLLLoss(v[1], autograd.PoissonNLL{Rates: true}, none) },
		"poisson full":  func(v vars) variable { return v[0].PoissonNLLLoss(v[1], autograd.PoissonNLL{Full: true}, none) },
		"gaussian full": func(v vars) variable {
			return v[0].GaussianNLLLoss(v[1], v[2], autograd.GaussianNLL{Full: true, Eps: 1e-2}, none)
		},
		"multilabel_soft weight": func(v vars) variable { return v[0].MultiLabelSoftMarginLoss(v[1], v[2].Detach(), none) },
		"multi_margin square": func(v vars) variable {
			return v[0].MultiMarginLoss(v[1], 0.5, autograd.MultiMargin{P: 2, Weight: v[2].Detach()}, none)
		},
	}
	aside := func(f func(v vars) variable, at []int, shapes ...[]int) gradientCase { // the last input is of classes
		return gradientCase{f: f, inputs: func(r *rig) []*tensor.Tensor {
			var ts []*tensor.Tensor
			for i, s := range shapes {
				ts = append(ts, r.random(uint64(30+i), s...))
			}
			n := 1
			for _, d := range at {
				n *= d
			}
			return append(ts, r.ints([]int64{1, -1, 1, -1, -1, 1}[:n], at...))
		}}
	}
	composed(functions,
		aside(composedFunctions["margin_ranking none"], []int{4}, []int{4}, []int{4}).called("margin_ranking_loss"),
		aside(composedFunctions["hinge_embedding none"], []int{4}, []int{4}).called("hinge_embedding_loss"),
		aside(composedFunctions["cosine_embedding none"], []int{3}, []int{3, 2}, []int{3, 2}).called("cosine_embedding_loss"),
		gradientCase{op: "triplet_margin_loss", f: composedFunctions["triplet none"], shapes: [][]int{{4, 3}, {4, 3}, {4, 3}}},
		gradientCase{op: "triplet_margin_loss", note: "swap", f: functions["triplet swap"], shapes: [][]int{{4, 3}, {4, 3}, {4, 3}}},
		gradientCase{op: "poisson_nll_loss", f: composedFunctions["poisson none"], shapes: [][]int{{2, 3}, {2, 3}}},
		gradientCase{op: "poisson_nll_loss", note: "rates", f: functions["poisson rates"], shapes: [][]int{{2, 3}, {2, 3}}, prep: positive},
		gradientCase{op: "gaussian_nll_loss", f: composedFunctions["gaussian none"], shapes: [][]int{{2, 3}, {2, 3}, {2, 1}}, prep: positive},
		aside(composedFunctions["soft_margin none"], []int{2, 3}, []int{2, 3}).called("soft_margin_loss"),
		gradientCase{op: "multilabel_soft_margin_loss", f: func(v vars) variable { return v[0].MultiLabelSoftMarginLoss(v[1], v[2], none) },
			shapes: [][]int{{2, 3}, {2, 3}, {3}}},
		gradientCase{op: "multi_margin_loss", inputs: func(r *rig) []*tensor.Tensor {
			return []*tensor.Tensor{r.random(1, 3, 4), r.random(2, 4), r.ints([]int64{3, 0, 1})}
		}, f: func(v vars) variable {
			return v[0].MultiMarginLoss(v[2], 1, autograd.MultiMargin{P: 2, Weight: v[1]}, none)
		}},
		gradientCase{op: "multilabel_margin_loss", f: composedFunctions["multilabel_margin none"], inputs: func(r *rig) []*tensor.Tensor {
			return []*tensor.Tensor{r.random(1, 2, 3), r.ints([]int64{2, 0, -1, 1, -1, 0}, 2, 3)}
		}},
	)
}

// called is c of an operation.
func (c gradientCase) called(op string) gradientCase {
	c.op, c.note = op, strings.TrimSpace(c.note)
	return c
}

func TestComposedLosses_RefuseReductionsOfOthers_AndIntegers(t *testing.T) {
	r := onHost(t)
	for name, f := range map[string]func(x, y variable, r autograd.Reduction) variable{
		"margin_ranking_loss":  func(x, y variable, r autograd.Reduction) variable { return x.MarginRankingLoss(y, y, 0, r) },
		"hinge_embedding_loss": func(x, y variable, r autograd.Reduction) variable { return x.HingeEmbeddingLoss(y, 1, r) },
		"triplet_margin_loss": func(x, y variable, r autograd.Reduction) variable {
			return x.TripletMarginLoss(y, y, 1, autograd.Triplet{}, r)
		},
		"soft_margin_loss": func(x, y variable, r autograd.Reduction) variable { return x.SoftMarginLoss(y, r) },
		"poisson_nll_loss": func(x, y variable, r autograd.Reduction) variable {
			return x.PoissonNLLLoss(y, autograd.PoissonNLL{}, r)
		},
		"gaussian_nll_loss": func(x, y variable, r autograd.Reduction) variable {
			return x.GaussianNLLLoss(y, y, autograd.GaussianNLL{}, r)
		},
		"cosine_embedding_loss": func(x, y variable, r autograd.Reduction) variable {
			return x.CosineEmbeddingLoss(y, y.Select(1, 0), 0, r)
		},
	} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Int64} {
			g := r.graph()
			x := g.Ones(dt, 2, 3)
			reduction := autograd.MeanReduction
			if dt == tensor.Float32 {
				reduction = autograd.BatchMeanReduction
			}
			f(x, x, reduction)
			var op *autograd.OpError
			require.ErrorAs(t, g.Err(), &op, name)
			require.Equal(t, name, op.Op)
			g.Release()
			require.Zero(t, r.allocated(), name)
		}
	}
}
