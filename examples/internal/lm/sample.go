package lm

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/generate"
	"github.com/cistern-ml/cistern/tensor"
)

// Writing says how the next characters are chosen.
type Writing struct {
	generate.Sampler
	Beam int // hypotheses of beam search, which takes the place of the sampler; 0 or 1 for none
}

// Sample lets the model continue a text by n characters: drawn as the sampler says, or the likeliest that beam search finds. After Ctrl-C it is
// what there is by then, with session.ErrInterrupted.
func (t *Trainer) Sample(prompt string, n int, seed uint64, how Writing) (text string, err error) {
	nn.Eval(t.model)
	defer nn.Train(t.model)
	ids := t.Corpus.Encode(prompt)
	if len(ids) == 0 {
		ids = []int64{0}
	}
	w := writer{t: t, gen: tensor.NewGenerator(seed), rows: make([][]int64, max(1, how.Beam))}
	for i := range w.rows {
		w.rows[i] = append([]int64(nil), ids...)
	}
	if w.cache, err = t.model.Cache(t.Device, len(w.rows), nn.DType(Precisions[t.AMP])); err != nil {
		return "", err
	}
	defer w.cache.Release()
	next := func(logits *autograd.Variable) error { return w.draw(logits, how.Sampler) }
	if how.Beam > 1 {
		next = w.search()
	}
	for range n {
		if err = t.Interruption(); err != nil {
			break
		}
		if err := w.step(next); err != nil {
			return "", err
		}
	}
	return t.Corpus.Decode(w.rows[0]), err
}

// writer continues rows of tokens, all of one length.
type writer struct {
	t     *Trainer
	cache *nn.KVCache
	gen   *tensor.Generator
	rows  [][]int64
	first int // the token of each row that is the first in the cache
}

// step gives next the logits of the token that follows each row, [rows, characters]; next appends to rows.
func (w *writer) step(next func(logits *autograd.Variable) error) error {
	have := len(w.rows[0])
	if have-w.first > w.t.Seq { // the model knows no more positions: it goes on from half as many tokens
		w.cache.Reset()
		w.first = have - max(1, w.t.Seq/2)
	}
	from := w.first + w.cache.Len()
	var ids []int64
	for _, row := range w.rows {
		ids = append(ids, row[from:]...)
	}
	g := w.t.newGraph(autograd.NoGrad(), autograd.WithGenerator(w.gen))
	defer g.Release()
	x := autograd.FromSlice(g, ids, len(w.rows), have-from)
	logits := w.t.model.Decode(x, w.cache).Select(1, -1).Narrow(-1, 0, len(w.t.Corpus.Alphabet))
	if err := g.Err(); err != nil {
		return err
	}
	return next(logits)
}

// draw appends a token to each row.
func (w *writer) draw(logits *autograd.Variable, s generate.Sampler) error {
	var ids []int64
	for _, row := range w.rows {
		ids = append(ids, row...)
	}
	tokens := autograd.FromSlice(logits.Graph(), ids, len(w.rows), len(w.rows[0]))
	next, err := autograd.Values[int64](s.Next(logits, tokens))
	if err != nil {
		return err
	}
	for i, id := range next {
		w.rows[i] = append(w.rows[i], id)
	}
	return nil
}

// search is beam search.
func (w *writer) search() func(logits *autograd.Variable) error {
	beams, rows := generate.NewBeams(len(w.rows), -1), w.rows
	return func(logits *autograd.Variable) error {
		parents, err := beams.Next(logits)
		if err != nil {
			return err
		}
		next := make([][]int64, len(parents))
		for i, id := range beams.Last() {
			before := rows[parents[i]]
			next[i] = append(before[:len(before):len(before)], id)
		}
		rows, w.rows = next, next
		return w.cache.Reorder(parents...)
	}
}
