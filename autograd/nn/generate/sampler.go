package generate

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Sampler says how the next token is drawn. What is 0 is not done: the zero Sampler draws with the model's own probabilities.
type Sampler struct {
	Greedy            bool    // take the likeliest token; then only RepetitionPenalty counts
	RepetitionPenalty float64 // see RepetitionPenalty
	Temperature       float64 // see Temperature
	TopK              int     // see TopK
	TopP              float64 // see TopP
}

// Next draws a token for each row of logits, [batch, vocabulary] or [vocabulary]: [batch], of type int64, or a scalar. tokens are those that the rows
// already have, [batch, T] or [T]; only RepetitionPenalty looks at them, and they may be nil without it. Random numbers are the graph's
// (autograd.WithGenerator). Drawing waits for the device, to refuse what is no distribution; Greedy does not.
func (s Sampler) Next(logits, tokens *autograd.Variable) *autograd.Variable {
	if !logits.Alive() {
		return Greedy(logits)
	}
	return logits.Graph().Scope(func() *autograd.Variable {
		left := s.Logits(logits, tokens)
		if s.Greedy {
			return Greedy(left)
		}
		return processed(left, "Sampler", "", func() *autograd.Variable { return left.Softmax(-1).Multinomial(1, true).Squeeze(-1) })
	})
}

// Logits are what Next draws from: logits in float32 (float64 if they are that) after RepetitionPenalty, Temperature, TopK and TopP, in this order.
func (s Sampler) Logits(logits, tokens *autograd.Variable) *autograd.Variable {
	if !logits.Alive() {
		return Greedy(logits)
	}
	if logits.DType() != tensor.Float64 && logits.DType().IsFloat() {
		logits = logits.To(tensor.Float32)
	}
	if s.RepetitionPenalty != 0 {
		logits = RepetitionPenalty(logits, tokens, s.RepetitionPenalty)
	}
	if s.Greedy {
		return logits
	}
	if s.Temperature != 0 {
		logits = Temperature(logits, s.Temperature)
	}
	if s.TopK != 0 {
		logits = TopK(logits, s.TopK)
	}
	if s.TopP != 0 {
		logits = TopP(logits, s.TopP)
	}
	return logits
}
