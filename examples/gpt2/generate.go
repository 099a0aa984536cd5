package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// decoder gives the logits of the token that follows some tokens. A decoder that keeps the keys and values of the tokens that it has seen
// computes those alone that are new; this program's only one computes all of them each time.
type decoder interface {
	next(ids []int64) ([]float64, error)
}

// whole computes all tokens that the model can look at.
type whole struct {
	*model
	exec    tensor.Exec
	context int
}

func (w *whole) next(ids []int64) ([]float64, error) {
	ids = ids[max(0, len(ids)-w.context):]
	x, err := tensor.FromSlice(w.exec, ids, 1, len(ids))
	if err != nil {
		return nil, err
	}
	defer x.Release()
	g := autograd.NewGraph(w.exec.Device(), autograd.NoGrad())
	defer g.Release()
	logits := w.Last(g.Input(x), 0).To(tensor.Float32)
	if err := g.Err(); err != nil {
		return nil, err
	}
	return logits.Float64s()
}

// sampling is how a token is chosen.
type sampling struct {
	temperature float64 // 0 for the likeliest
	topK        int     // of the likeliest so many; 0 for all
	seed        uint64
}

// generate lets a decoder continue ids by n tokens, or up to the token that ends texts, until stop says so.
func generate(d decoder, ids []int64, n int, s sampling, end *int64, stop func() bool) ([]int64, error) {
	random := rand.New(rand.NewPCG(s.seed, 0))
	ids = slices.Clone(ids)
	for range n {
		if stop() {
			break
		}
		logits, err := d.next(ids)
		if err != nil {
			return nil, err
		}
		id := s.choose(logits, random)
		if end != nil && id == *end {
			break
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// choose is the likeliest token, or one drawn from the likeliest with the probabilities that they have at the temperature.
func (s sampling) choose(logits []float64, random *rand.Rand) int64 {
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	if s.topK > 0 {
		order = order[:min(s.topK, len(order))]
	}
	if s.temperature == 0 {
		return int64(order[0])
	}
	weights, total := make([]float64, len(order)), 0.0
	for i, id := range order {
		weights[i] = math.Exp((logits[id] - logits[order[0]]) / s.temperature)
		total += weights[i]
	}
	u := random.Float64() * total
	for i, w := range weights {
		if u -= w; u < 0 {
			return int64(order[i])
		}
	}
	return int64(order[0])
}
