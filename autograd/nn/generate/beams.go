package generate

import (
	"fmt"
	"math"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// Beams is a beam search for the likeliest continuation of one text: of all continuations of all rows it keeps the likeliest, as many as there are rows.
//
//	b := generate.NewBeams(4, end)
//	for range longest {
//		parents, err := b.Next(logits) // of the model, [4, vocabulary]
//		...
//		err = cache.Reorder(parents...)
//		if b.Done() { break }
//		// the model reads b.Last(), a token for each row
//	}
//	tokens, score := b.Best()
type Beams struct {
	// LengthPenalty is the power of the length that the score of a sequence is divided by, 0 for none. Hugging Face's default is 1.
	LengthPenalty float64

	end    int64
	live   []hypothesis // as many as rows, the likeliest first
	ended  []hypothesis // no more than rows, the best first
	length int          // of the live ones
}

// hypothesis is a sequence of tokens and the logarithm of its probability.
type hypothesis struct {
	tokens []int64
	score  float64
}

// NewBeams begins a search with so many rows, at least 1, all of the same text. end is the token that ends a sequence, -1 if there is none. Mistakes are
// told by Next.
func NewBeams(rows int, end int64) *Beams {
	b := &Beams{end: end}
	if rows < 1 || rows > maxBeams {
		return b
	}
	b.live = make([]hypothesis, rows)
	for i := range b.live[1:] {
		b.live[i+1].score = math.Inf(-1) // at first all rows are the same: one counts
	}
	return b
}

// maxBeams is more than any search has.
const maxBeams = 1 << 16

// Next takes the logits of the token that follows each row, [rows, vocabulary], and returns which row each of the new ones continues, in whose order states
// such as a KVCache go on. It waits for the device. Logits of another shape, or that are not numbers, are an *nn.ArgumentError, and change nothing.
func (b *Beams) Next(logits *autograd.Variable) (parents []int, err error) {
	if b == nil || len(b.live) == 0 {
		return nil, wrong("there is no search: make it with NewBeams, of 1 to %d rows", maxBeams)
	}
	if logits == nil {
		return nil, wrong("the logits are nil")
	}
	g := logits.Graph()
	if err := g.Err(); err != nil {
		return nil, err
	}
	rows := len(b.live)
	if logits.NDim() != 2 || logits.Dim(0) != rows || logits.Dim(1) < 1 || !logits.DType().IsFloat() {
		return nil, wrong("logits of type %v and shape %v; want floats, [%d, vocabulary]", logits.DType(), logits.Shape(), rows)
	}
	scores, places, err := b.candidates(logits)
	if err != nil {
		return nil, err
	}
	return b.choose(scores, places, int64(logits.Dim(1))), nil
}

// candidates are the likeliest continuations, twice as many as rows, because each row may end: their scores and places in [rows*vocabulary].
func (b *Beams) candidates(logits *autograd.Variable) (scores []float64, places []int64, err error) {
	g, rows := logits.Graph(), len(b.live)
	before := make([]float64, rows)
	for i, h := range b.live {
		before[i] = h.score
	}
	both := g.Scopes(func() []*autograd.Variable {
		total := logits.To(tensor.Float64).LogSoftmax(-1).Add(autograd.FromSlice(g, before, rows, 1)).Reshape(-1)
		best, at := total.TopK(min(2*rows, total.Len()), 0, true)
		return []*autograd.Variable{best, at}
	})
	if scores, err = autograd.Values[float64](both[0]); err != nil {
		return nil, nil, err
	}
	if places, err = autograd.Values[int64](both[1]); err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(scores, math.IsNaN) {
		return nil, nil, unlikely(logits)
	}
	return scores, places, nil
}

// unlikely says what makes logits no logarithms of probabilities.
func unlikely(logits *autograd.Variable) error {
	vs, err := logits.Float64s()
	if err != nil {
		return err
	}
	n := logits.Dim(1)
	for row := range logits.Dim(0) {
		of := vs[row*n : (row+1)*n]
		switch {
		case slices.ContainsFunc(of, math.IsNaN):
			return wrong("row %d has a logit that is NaN", row)
		case slices.Max(of) == math.Inf(1):
			return wrong("row %d has a logit of +Inf; one of -Inf takes a token out, none makes it certain", row)
		case slices.Max(of) == math.Inf(-1):
			return wrong("all logits of row %d are -Inf: no token is left", row)
		}
	}
	return wrong("the sums of logits and scores are NaN")
}

// choose makes the best candidates the rows, or puts them to those that have ended.
func (b *Beams) choose(scores []float64, places []int64, vocabulary int64) (parents []int) {
	rows := len(b.live)
	live := make([]hypothesis, 0, rows)
	b.length++
	for i, place := range places {
		from, token := int(place/vocabulary), place%vocabulary
		before := b.live[from].tokens
		h := hypothesis{append(before[:len(before):len(before)], token), scores[i]}
		switch {
		case token != b.end || math.IsInf(h.score, -1):
			if len(live) < rows {
				live, parents = append(live, h), append(parents, from)
			}
		case i < rows: // one behind as many better ones would not have been continued
			b.ended = append(b.ended, hypothesis{h.tokens, b.scaled(h)})
		}
	}
	for len(live) < rows { // a vocabulary of one token, or all have ended: rows that nothing continues
		live, parents = append(live, hypothesis{b.live[0].tokens, math.Inf(-1)}), append(parents, 0)
	}
	b.live = live
	slices.SortStableFunc(b.ended, func(x, y hypothesis) int {
		switch {
		case x.score > y.score:
			return -1
		case x.score < y.score:
			return 1
		}
		return 0
	})
	b.ended = b.ended[:min(rows, len(b.ended))]
	return parents
}

// scaled is a hypothesis's score for its length.
func (b *Beams) scaled(h hypothesis) float64 {
	return h.score / math.Pow(float64(max(1, len(h.tokens))), b.LengthPenalty)
}

// Last is the last token of each row, which the model reads next. There are none before the first Next.
func (b *Beams) Last() []int64 {
	if b == nil || b.length == 0 {
		return nil
	}
	last := make([]int64, len(b.live))
	for i, h := range b.live {
		if n := len(h.tokens); n > 0 {
			last[i] = h.tokens[n-1]
		}
	}
	return last
}

// Done reports whether as many sequences have ended as there are rows, and none that goes on is better, at its length, than the worst of them, as Hugging
// Face's early_stopping=False decides.
func (b *Beams) Done() bool {
	if b == nil || len(b.live) == 0 {
		return true
	}
	return len(b.ended) == len(b.live) && b.ended[len(b.ended)-1].score >= b.scaled(b.live[0]) || b.length > 0 && math.IsInf(b.live[0].score, -1)
}

// Best is the best sequence, with its end token if it has ended, and its score: the logarithm of its probability divided by its length to the power of
// LengthPenalty. Sequences that go on count too only if none has ended.
func (b *Beams) Best() (tokens []int64, score float64) {
	if b == nil || len(b.live) == 0 {
		return nil, math.Inf(-1)
	}
	h := hypothesis{b.live[0].tokens, b.scaled(b.live[0])}
	if len(b.ended) > 0 {
		h = b.ended[0]
	}
	return slices.Clone(h.tokens), h.score
}

func wrong(format string, args ...any) error {
	return &nn.ArgumentError{What: "Beams", Detail: fmt.Sprintf(format, args...)}
}
