package generate_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/generate"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// markov are the logits of the token after each token of a small language; after the last one, 3, nothing comes.
var markov = [4][4]float64{{0.1, 1.2, 0.7, -0.5}, {0.9, -1, 1.1, 0.6}, {0.3, 0.8, -0.2, 1.4}, {0, 0, 0, 0}}

// search runs a search from token 0, for at most so many tokens.
func search(t *testing.T, rows, longest int, penalty float64) (tokens []int64, score float64) {
	t.Helper()
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	b := generate.NewBeams(rows, 3)
	b.LengthPenalty = penalty
	require.Nil(t, b.Last())
	states := make([]int64, rows) // the token of each row, as a model's state would be
	for range longest {
		g := autograd.NewGraph(dev, autograd.NoGrad())
		var logits []float64
		for _, s := range states {
			logits = append(logits, markov[s][:]...)
		}
		parents, err := b.Next(autograd.FromSlice(g, logits, rows, 4))
		g.Release()
		require.NoError(t, err)
		require.Len(t, parents, rows)
		states = b.Last()
		if b.Done() {
			break
		}
	}
	return b.Best()
}

// exhaustive looks at all sequences that end within so many tokens.
func exhaustive(longest int, penalty float64) (tokens []int64, best float64) {
	best = math.Inf(-1)
	var walk func(so []int64, at int64, sum float64)
	walk = func(so []int64, at int64, sum float64) {
		total := 0.0
		for _, l := range markov[at] {
			total += math.Exp(l)
		}
		for next, l := range markov[at] {
			now, here := sum+l-math.Log(total), append(so[:len(so):len(so)], int64(next))
			if next == 3 {
				if s := now / math.Pow(float64(len(here)), penalty); s > best {
					tokens, best = here, s
				}
			} else if len(here) < longest {
				walk(here, int64(next), now)
			}
		}
	}
	walk(nil, 0, 0)
	return tokens, best
}

func TestBeams_FindTheBestSequence(t *testing.T) {
	for _, penalty := range []float64{0, 1, 2} {
		for _, longest := range []int{1, 3, 5} {
			want, score := exhaustive(longest, penalty)
			got, found := search(t, 300, longest, penalty) // rows enough for all sequences
			require.Equal(t, want, got, "penalty %v, %d tokens", penalty, longest)
			require.InDelta(t, score, found, 1e-12)
		}
	}
	greedy, _ := search(t, 1, 4, 0)
	require.Equal(t, []int64{1, 2, 3}, greedy, "with one row it takes the likeliest token each time")
}

// With one row the one that goes on counts when nothing has ended.
func TestBeams_ThatHaveNotEnded(t *testing.T) {
	tokens, score := search(t, 1, 1, 1)
	require.Equal(t, []int64{1}, tokens)
	require.Less(t, score, 0.0)
}

func TestBeams_RefuseWhatIsNoStep(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	g := autograd.NewGraph(dev, autograd.NoGrad())
	defer g.Release()
	var bad *nn.ArgumentError
	for _, b := range []*generate.Beams{nil, {}, generate.NewBeams(0, 1), generate.NewBeams(1<<40, 1)} {
		_, err := b.Next(g.Zeros(tensor.Float32, 1, 2))
		require.ErrorAs(t, err, &bad)
		require.True(t, b.Done())
		require.Nil(t, b.Last())
		tokens, _ := b.Best()
		require.Nil(t, tokens)
	}
	b := generate.NewBeams(2, -1)
	for _, logits := range []*autograd.Variable{nil, g.Zeros(tensor.Float32, 3, 2), g.Zeros(tensor.Float32, 2), g.Zeros(tensor.Int64, 2, 2),
		g.Zeros(tensor.Float32, 2, 0), g.Full(math.NaN(), tensor.Float32, 2, 2)} {
		_, err := b.Next(logits)
		require.ErrorAs(t, err, &bad)
	}
	inf := math.Inf(1)
	for want, logits := range map[string][]float64{
		"row 1 has a logit that is NaN": {0, 1, 2, math.NaN()}, "row 0 has a logit of +Inf": {0, inf, 2, 3},
		"all logits of row 1 are -Inf: no token is left": {0, 1, -inf, -inf},
	} {
		_, err := b.Next(autograd.FromSlice(g, logits, 2, 2))
		require.ErrorAs(t, err, &bad)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, g.Err())
	parents, err := b.Next(g.Zeros(tensor.Float32, 2, 1))
	require.NoError(t, err, "a vocabulary of one token")
	require.Equal(t, []int{0, 1}, parents)
	require.Equal(t, []int64{0, 0}, b.Last())
	g.Fail(bad)
	_, err = b.Next(g.Zeros(tensor.Float32, 2, 1))
	require.ErrorAs(t, err, &bad)
}
