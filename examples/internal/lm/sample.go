package lm

import (
	"math"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// Sample lets the model continue a text by n characters, drawn with the probabilities that it gives them.
func (t *Trainer) Sample(prompt string, n int, seed uint64) (string, error) {
	nn.Eval(t.model)
	defer nn.Train(t.model)
	ids := t.Corpus.Encode(prompt)
	if len(ids) == 0 {
		ids = []int64{0}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for range n {
		p, err := t.next(ids[max(0, len(ids)-t.Seq):])
		if err != nil {
			return "", err
		}
		ids = append(ids, draw(p[:len(t.Corpus.Alphabet)], random.Float64()))
	}
	return t.Corpus.Decode(ids), nil
}

// next gives the probabilities of the character that follows.
func (t *Trainer) next(ids []int64) ([]float64, error) {
	x, err := tensor.FromSlice(t.exec, ids, 1, len(ids))
	if err != nil {
		return nil, err
	}
	defer x.Release()
	g := t.graph(autograd.NoGrad())
	defer g.Release()
	p := t.model.Forward(g.Input(x)).Select(1, -1).To(tensor.Float32).Softmax(-1)
	if err := g.Err(); err != nil {
		return nil, err
	}
	return p.Float64s()
}

// draw chooses a place with the given probabilities, which need not add up to one; u is in [0, 1).
func draw(p []float64, u float64) int64 {
	total := 0.0
	for _, v := range p {
		total += v
	}
	u *= total
	last := int64(0)
	for i, v := range p {
		if !(v > 0) || math.IsNaN(v) {
			continue
		}
		if last = int64(i); u < v {
			break
		}
		u -= v
	}
	return last
}
