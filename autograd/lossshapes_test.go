package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// A reduced loss is a scalar, whichever operations it is made of, and one that is not reduced has an element for each that was compared.
func TestLosses_HaveTheShapeOfTheirReduction(t *testing.T) {
	type variable = *autograd.Variable
	type reduction = autograd.Reduction
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x, y := g.Input(r.random(1, 4, 3)).Sigmoid(), g.Input(r.random(2, 4, 3)).Sigmoid()
	weight, classWeights := g.Input(r.random(3, 4, 1)), g.Input(r.tensor([]float64{1, 2, 3}))
	deep, classes, deepClasses := g.Input(r.random(4, 4, 3, 2)), g.Input(r.ints([]int64{0, 1, 2, 0})), g.Input(r.ints(make([]int64, 8), 4, 2))
	classLoss := func(x, y variable, opts ...autograd.ClassLossOption) func(reduction) variable {
		return func(r reduction) variable { return x.CrossEntropy(y, append(opts, autograd.Reduce(r))...) }
	}
	elements, rows := tensor.Shape{4, 3}, tensor.Shape{4}
	for name, c := range map[string]struct {
		loss func(r reduction) variable
		each tensor.Shape
	}{
		"mse":                 {func(r reduction) variable { return x.MSELoss(y, r) }, elements},
		"l1":                  {func(r reduction) variable { return x.L1Loss(y, r) }, elements},
		"smooth l1":           {func(r reduction) variable { return x.SmoothL1Loss(y, 1, r) }, elements},
		"huber":               {func(r reduction) variable { return x.HuberLoss(y, 1, r) }, elements},
		"kl":                  {func(r reduction) variable { return x.KLDivLoss(y, false, r) }, elements},
		"bce":                 {func(r reduction) variable { return x.BCELoss(y, r) }, elements},
		"bce, weights":        {func(r reduction) variable { return x.BCELoss(y, r, autograd.BCEWeight(weight)) }, elements},
		"bce logits":          {func(r reduction) variable { return x.BCEWithLogitsLoss(y, r) }, elements},
		"bce logits, weights": {func(r reduction) variable { return x.BCEWithLogitsLoss(y, r, autograd.BCEWeight(weight)) }, elements},
		"bce logits, positive": {func(r reduction) variable {
			return x.BCEWithLogitsLoss(y, r, autograd.PosWeight(classWeights))
		}, elements},
		"bce logits, both": {func(r reduction) variable {
			return x.BCEWithLogitsLoss(y, r, autograd.PosWeight(classWeights), autograd.BCEWeight(weight))
		}, elements},
		"nll":                         {func(r reduction) variable { return x.NLLLoss(classes, autograd.Reduce(r)) }, rows},
		"classes":                     {classLoss(x, classes), rows},
		"classes, weights":            {classLoss(x, classes, autograd.ClassWeights(classWeights)), rows},
		"classes, smoothed":           {classLoss(x, classes, autograd.LabelSmoothing(0.1)), rows},
		"classes, deep":               {classLoss(deep, deepClasses), tensor.Shape{4, 2}},
		"classes, of one":             {classLoss(x.Select(0, 0), classes.Select(0, 0)), tensor.Shape{}},
		"probabilities":               {classLoss(x, y), rows},
		"probabilities, weights":      {classLoss(x, y, autograd.ClassWeights(classWeights)), rows},
		"probabilities, deep":         {classLoss(deep, deep.Softmax(1)), tensor.Shape{4, 2}},
		"probabilities, of one":       {classLoss(x.Select(0, 0), y.Select(0, 0)), tensor.Shape{}},
		"probabilities, all of these": {classLoss(deep, deep.Softmax(1), autograd.ClassWeights(classWeights), autograd.LabelSmoothing(0.1)), tensor.Shape{4, 2}},
	} {
		for r, want := range map[reduction]tensor.Shape{
			autograd.MeanReduction: {}, autograd.SumReduction: {}, autograd.NoReduction: c.each,
		} {
			loss := c.loss(r)
			require.NoError(t, g.Err(), name)
			require.Equal(t, want, loss.Shape(), "%s, %v", name, r)
		}
	}
}

func TestCrossEntropy_OfProbabilitiesSaysWhatIsWrongFirst(t *testing.T) {
	r := onHost(t)
	scalar, row := r.random(1), r.random(1, 3)
	for name, c := range map[string]struct {
		logits, target *tensor.Tensor
		want           any
	}{
		"no dimension of classes": {scalar, scalar, new(*tensor.ShapeError)},
		"shapes":                  {row, scalar, new(*tensor.ShapeError)},
		"a class to ignore":       {row, row, new(*tensor.ValueError)},
	} {
		g := r.graph()
		g.Input(c.logits).CrossEntropy(g.Input(c.target), autograd.IgnoreIndex(1))
		require.ErrorAs(t, g.Err(), c.want, name)
		g.Release()
	}
}
