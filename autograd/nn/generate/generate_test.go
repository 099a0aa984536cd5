package generate_test

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/generate"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// numbers may be infinite.
type numbers []float64

func (n *numbers) UnmarshalJSON(text []byte) error {
	var list []any
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, v := range list {
		f, ok := v.(float64)
		if !ok {
			var err error
			if f, err = strconv.ParseFloat(v.(string), 64); err != nil {
				return err
			}
		}
		*n = append(*n, f)
	}
	return nil
}

func (n numbers) float32s() []float32 {
	x := make([]float32, len(n))
	for i, v := range n {
		x[i] = float32(v)
	}
	return x
}

// golden is what PyTorch computed: see testdata/processors.py.
type golden struct {
	Sampler struct {
		Temperature, Penalty float64
		TopK                 int     `json:"top_k"`
		TopP                 float64 `json:"top_p"`
	}
	Logits, Out, Probabilities numbers
	Tokens                     []int64
}

func (c *golden) sampler() generate.Sampler {
	s := c.Sampler
	return generate.Sampler{RepetitionPenalty: s.Penalty, Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP}
}

// world is a device whose memory must be given back.
func world(t *testing.T) (device.Device, *memory.Caching) {
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	})
	return dev, alloc
}

func cases(t *testing.T) (list []golden) {
	text, err := os.ReadFile("testdata/processors.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &list))
	require.NotEmpty(t, list)
	return list
}

func TestSampler_LeavesWhatHuggingFaceLeaves(t *testing.T) {
	dev, alloc := world(t)
	for _, c := range cases(t) {
		g := autograd.NewGraph(dev, autograd.WithAllocator(alloc), autograd.NoGrad())
		logits, tokens := autograd.FromSlice(g, c.Logits.float32s(), 3, 12), autograd.FromSlice(g, c.Tokens, 3, 3)
		out, err := c.sampler().Logits(logits, tokens).Float64s()
		require.NoError(t, err)
		requireNear(t, c.Out, out, "%+v", c.Sampler)
		one, err := c.sampler().Logits(logits.Select(0, 1), tokens.Select(0, 1)).Float64s()
		require.NoError(t, err)
		requireNear(t, c.Out[12:24], one, "%+v of one row", c.Sampler)
		g.Release()
	}
}

// requireNear lets infinities be equal.
func requireNear(t *testing.T, want, got []float64, format string, args ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if math.IsInf(want[i], 0) {
			require.Equal(t, want[i], got[i], append([]any{format + ", element " + strconv.Itoa(i)}, args...)...)
		} else {
			require.InDelta(t, want[i], got[i], 1e-5, append([]any{format + ", element " + strconv.Itoa(i)}, args...)...)
		}
	}
}

// Tokens are drawn as often as their probabilities say, and none that is out.
func TestSampler_DrawsWithTheProbabilitiesThatAreLeft(t *testing.T) {
	dev, alloc := world(t)
	gen := tensor.NewGenerator(1)
	for _, c := range cases(t)[11:13] {
		const times = 2000
		var counts [36]float64
		for range times / 50 {
			g := autograd.NewGraph(dev, autograd.WithAllocator(alloc), autograd.NoGrad(), autograd.WithGenerator(gen))
			logits, tokens := autograd.FromSlice(g, c.Logits.float32s(), 3, 12), autograd.FromSlice(g, c.Tokens, 3, 3)
			for range 50 {
				next, err := autograd.Values[int64](c.sampler().Next(logits, tokens))
				require.NoError(t, err)
				require.Len(t, next, 3)
				for row, token := range next {
					counts[row*12+int(token)] += 1.0 / times
				}
			}
			g.Release()
		}
		for i, p := range c.Probabilities {
			require.InDelta(t, p, counts[i], 0.06)
			require.False(t, p == 0 && counts[i] > 0, "token %d of row %d is out", i%12, i/12)
		}
	}
}

func TestSampler_GreedyTakesTheLikeliest(t *testing.T) {
	dev, alloc := world(t)
	g := autograd.NewGraph(dev, autograd.WithAllocator(alloc), autograd.NoGrad())
	defer g.Release()
	logits := autograd.FromSlice(g, []float32{1, 3, 3, 2, 5, 0, -1, 4.5}, 2, 4)
	next, err := autograd.Values[int64](generate.Sampler{Greedy: true, Temperature: -1}.Next(logits, nil))
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0}, next)
	next, err = autograd.Values[int64](generate.Sampler{Greedy: true, RepetitionPenalty: 2}.Next(logits.To(tensor.BFloat16), autograd.FromSlice(g, []int64{1, 0}, 2, 1)))
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3}, next)
	one := generate.Sampler{Greedy: true}.Next(logits.Select(0, 1), nil)
	require.Empty(t, one.Shape())
}

func TestTopP_OfTheBounds(t *testing.T) {
	dev, alloc := world(t)
	g := autograd.NewGraph(dev, autograd.WithAllocator(alloc), autograd.NoGrad())
	defer g.Release()
	logits, out := autograd.FromSlice(g, []float32{1, 3, 2}, 3), float32(math.Inf(-1))
	for p, want := range map[float64][]float32{0: {out, 3, out}, 1: {1, 3, 2}} {
		left, err := autograd.Values[float32](generate.TopP(logits, p))
		require.NoError(t, err)
		require.Equal(t, want, left, "p is %v", p)
	}
}

func TestProcessors_RefuseWhatIsWrong(t *testing.T) {
	dev, alloc := world(t)
	var argument *nn.ArgumentError
	for name, f := range map[string]func(v *autograd.Variable) *autograd.Variable{
		"Temperature: 0;":             func(v *autograd.Variable) *autograd.Variable { return generate.Temperature(v, 0) },
		"Temperature: NaN":            func(v *autograd.Variable) *autograd.Variable { return generate.Temperature(v, math.NaN()) },
		"TopK: 0 tokens":              func(v *autograd.Variable) *autograd.Variable { return generate.TopK(v, 0) },
		"TopK: -1":                    func(v *autograd.Variable) *autograd.Variable { return generate.Sampler{TopK: -1}.Next(v, nil) },
		"TopP: a probability of 1.5":  func(v *autograd.Variable) *autograd.Variable { return generate.TopP(v, 1.5) },
		"TopP: a probability of -0.1": func(v *autograd.Variable) *autograd.Variable { return generate.TopP(v, -0.1) },
		"RepetitionPenalty: -2":       func(v *autograd.Variable) *autograd.Variable { return generate.RepetitionPenalty(v, v, -2) },
		"there are no tokens": func(v *autograd.Variable) *autograd.Variable {
			return generate.Sampler{RepetitionPenalty: 2}.Next(v, nil)
		},
		"want logits": func(v *autograd.Variable) *autograd.Variable { return generate.Greedy(v.Unsqueeze(0).Unsqueeze(0)) },
	} {
		g := autograd.NewGraph(dev, autograd.WithAllocator(alloc))
		f(autograd.FromSlice(g, []float32{1, 2}, 2))
		require.ErrorContains(t, g.Err(), name)
		if name != "want logits" {
			require.ErrorAs(t, g.Err(), &argument)
		}
		g.Release()
	}
	require.Nil(t, generate.Greedy(nil))
	require.Nil(t, generate.Sampler{}.Next(nil, nil))
}
