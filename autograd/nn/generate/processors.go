package generate

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// Greedy is the number of the greatest logit of each row, the first of several: [batch], of type int64, or a scalar for one row without a batch.
func Greedy(logits *autograd.Variable) *autograd.Variable {
	return processed(logits, "Greedy", "", func() *autograd.Variable { return logits.ArgMax(-1, false) })
}

// Temperature divides logits by t, which is positive: below 1 what is likely becomes likelier, above 1 less likely.
func Temperature(logits *autograd.Variable, t float64) *autograd.Variable {
	wrong := ""
	if !(t > 0) || math.IsInf(t, 0) {
		wrong = fmt.Sprintf("%v; want a positive number, and Greedy for 0", t)
	}
	return processed(logits, "Temperature", wrong, func() *autograd.Variable { return logits.DivScalar(t) })
}

// TopK leaves the k greatest logits of each row, and all that are equal to the least of them. All are left if there are no more than k.
func TopK(logits *autograd.Variable, k int) *autograd.Variable {
	wrong := ""
	if k < 1 {
		wrong = fmt.Sprintf("%d tokens; want at least 1", k)
	}
	return processed(logits, "TopK", wrong, func() *autograd.Variable {
		n := min(k, logits.Dim(-1))
		greatest, _ := logits.TopK(n, -1, true)
		return logits.MaskedFill(logits.Lt(greatest.Narrow(-1, n-1, 1)), math.Inf(-1))
	})
}

// TopP leaves the fewest of the likeliest tokens of each row whose probabilities add up to p or more, and at least one (Holtzman et al., "The curious case of
// neural text degeneration", 2020). p is in 0..1.
func TopP(logits *autograd.Variable, p float64) *autograd.Variable {
	wrong := ""
	if !(p >= 0 && p <= 1) {
		wrong = fmt.Sprintf("a probability of %v; want one in 0..1", p)
	}
	return processed(logits, "TopP", wrong, func() *autograd.Variable {
		n := logits.Dim(-1)
		ascending, places := logits.Sort(-1, false)
		total := ascending.To(tensor.Float32).Softmax(-1).CumSum(-1)
		left := ascending.MaskedFill(total.LeScalar(1-p), math.Inf(-1))
		left = autograd.Cat([]*autograd.Variable{left.Narrow(-1, 0, n-1), ascending.Narrow(-1, n-1, 1)}, -1)
		return logits.Scatter(-1, places, left)
	})
}

// RepetitionPenalty makes the tokens that a row already has, [batch, T] or [T], of type int64, less likely: their logits are divided by penalty if they
// are positive, and multiplied if not (Keskar et al., "CTRL", 2019). penalty is positive; below 1 such tokens become likelier.
func RepetitionPenalty(logits, tokens *autograd.Variable, penalty float64) *autograd.Variable {
	wrong := ""
	switch {
	case !(penalty > 0) || math.IsInf(penalty, 0):
		wrong = fmt.Sprintf("%v; want a positive number", penalty)
	case !tokens.Alive():
		wrong = "there are no tokens"
	}
	return processed(logits, "RepetitionPenalty", wrong, func() *autograd.Variable {
		of := logits.Gather(-1, tokens)
		return logits.Scatter(-1, tokens, autograd.Where(of.LtScalar(0), of.MulScalar(penalty), of.DivScalar(penalty)))
	})
}

// processed runs f in a scope, unless the logits are not such, or an argument is wrong.
func processed(logits *autograd.Variable, what, wrong string, f func() *autograd.Variable) *autograd.Variable {
	g := logits.Graph()
	switch {
	case g == nil:
		return nil
	case !logits.Alive():
		return logits
	case wrong != "":
		return g.Refuse("generate", &nn.ArgumentError{What: what, Detail: wrong}, logits)
	case logits.NDim() < 1 || logits.NDim() > 2 || logits.Dim(-1) == 0 || !logits.DType().IsFloat():
		return g.Refuse("generate", &tensor.ShapeError{Op: what, Shapes: []tensor.Shape{logits.Shape().Clone()},
			Detail: "want logits of floating point, [batch, vocabulary] or [vocabulary]"}, logits)
	}
	return g.Scope(f)
}
