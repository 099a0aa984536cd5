package tensor_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

func TestAttention_ResultLiesSoThatHeadsJoinWithoutACopy(t *testing.T) {
	b := onHost(t)
	qkv := iota(t, b.Exec, 2, 5, 3, 4, 8) // as a projection leaves it: [B, T, 3, H, D]
	heads := must(t)(qkv.Permute(2, 0, 3, 1, 4))
	var part [3]*tensor.Tensor
	for i := range part {
		part[i] = must(t)(heads.Select(0, i))
	}
	before := b.allocated()
	out := must(t)(tensor.ScaledDotProductAttention(part[0], part[1], part[2], tensor.Attention{}))
	require.Equal(t, tensor.Shape{2, 4, 5, 8}, out.Shape())
	require.EqualValues(t, before+2*4*5*8*4+256, b.allocated(), "no copy of the operands is left")
	joined := must(t)(must(t)(out.Transpose(1, 2)).View(2, 5, 32))
	require.True(t, joined.SharesStorage(out))
}

func TestAttention_OfAQueryThatSeesNothingIsZero(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 2, 3)
	none := must(t)(tensor.FromSlice(b.Exec, []float32{0, 0, float32(math.Inf(-1)), float32(math.Inf(-1))}, 2, 2))
	out := must(t)(tensor.ScaledDotProductAttention(x, x, x, tensor.Attention{Mask: none}))
	require.Equal(t, []float64{0, 0, 0}, values(t, out)[3:])
	require.NotZero(t, values(t, out)[2])
}

func TestAttention_LowerRightEndsWithTheLastKey(t *testing.T) {
	lowerRight(t, onHost(t))
}

func TestAttention_LowerRightEndsWithTheLastKeyOnAnEmulatedGPU(t *testing.T) {
	b, _ := onPTX(t)
	lowerRight(t, b)
	// In half precision, where tensor cores compute: 70 queries of 100 keys.
	x := must(t)(must(t)(iota(t, b.Exec, 2, 100, 16).MulScalar(1.0 / 1600)).To(tensor.Float16))
	q := must(t)(x.Narrow(1, 30, 70))
	whole := must(t)(must(t)(tensor.ScaledDotProductAttention(x, x, x, tensor.Attention{IsCausal: true})).Narrow(1, 30, 70))
	last := must(t)(tensor.ScaledDotProductAttention(q, x, x, tensor.Attention{IsCausalLowerRight: true}))
	require.InDeltaSlice(t, values(t, whole), values(t, last), 1e-3)
}

func lowerRight(t *testing.T, b bench) {
	x := iota(t, b.Exec, 4, 3)
	whole := values(t, must(t)(tensor.ScaledDotProductAttention(x, x, x, tensor.Attention{IsCausal: true})))
	a := tensor.Attention{IsCausalLowerRight: true}
	for first := range 4 {
		q := must(t)(x.Narrow(0, first, 4-first))
		require.InDeltaSlice(t, whole[3*first:], values(t, must(t)(tensor.ScaledDotProductAttention(q, x, x, a))), 1e-6)
	}
	k := must(t)(x.Narrow(0, 0, 3))
	early := values(t, must(t)(tensor.ScaledDotProductAttention(x, k, k, a)))
	require.Equal(t, []float64{0, 0, 0}, early[:3], "the first query comes before all keys")
	require.Equal(t, []float64{0, 1, 2}, early[3:6], "the second sees the first")
}

// A query of a token that comes after 4096 others.
func TestAttention_LowerRightOfOneQueryTakesNoMask(t *testing.T) {
	b, _ := onSim(t)
	q, k := must(t)(tensor.Zeros(b.Exec, tensor.Float32, 1, 2, 1, 8)), must(t)(tensor.Zeros(b.Exec, tensor.Float32, 1, 2, 4096, 8))
	whole := must(t)(k.Narrow(2, 1, 4095))
	peak := func(q, k *tensor.Tensor) int64 {
		before := b.allocated()
		b.alloc.(interface{ ResetPeakStats() }).ResetPeakStats()
		must(t)(tensor.ScaledDotProductAttention(q, k, k, tensor.Attention{IsCausalLowerRight: true})).Release()
		return b.alloc.Stats().AllocatedBytes.All.Peak - before
	}
	require.EqualValues(t, 512+512, peak(q, k), "the result, and a number for the row")
	const rows, results = 2 * 4095 * 4, 2 * 4095 * 8 * 4
	require.LessOrEqual(t, peak(whole, k), int64(rows+results+4095+4096+3*512), "the result, a number for each row, and a mask of one row")
}

func TestAttention_DropsTheSameWeightsForTheSameState(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 2, 9, 4)
	gen := tensor.NewGenerator(5)
	a := tensor.Attention{DropoutP: 0.5}
	n, err := tensor.AttentionBlocks(x, x, x, a)
	require.NoError(t, err)
	require.EqualValues(t, 2*9*3, n)
	a.Random = gen.Reserve(n)
	require.Equal(t, tensor.GeneratorState{Seed: 5, Offset: n}, gen.State())
	first := values(t, must(t)(tensor.ScaledDotProductAttention(x, x, x, a)))
	require.Equal(t, first, values(t, must(t)(tensor.ScaledDotProductAttention(x, x, x, a))))
	a.Random = gen.Reserve(n)
	require.NotEqual(t, first, values(t, must(t)(tensor.ScaledDotProductAttention(x, x, x, a))))
}

func TestAttention_OfNothingIsEmpty_AndWithoutKeysZero(t *testing.T) {
	b := onHost(t)
	x, none := iota(t, b.Exec, 2, 3, 5, 4), iota(t, b.Exec, 2, 3, 0, 4)
	require.Equal(t, tensor.Shape{2, 3, 0, 4}, must(t)(tensor.ScaledDotProductAttention(none, x, x, tensor.Attention{})).Shape())
	require.Equal(t, make([]float64, 120), values(t, must(t)(tensor.ScaledDotProductAttention(x, none, none, tensor.Attention{}))))
}

func TestAttentionGrad_RefusesWhatDoesNotBelongTogether(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 5, 4)
	out, lse, err := gradients.AttentionForward(x, x, x, tensor.Attention{})
	require.NoError(t, err)
	defer out.Release()
	defer lse.Release()
	wide := must(t)(x.To(tensor.Float64))
	short := must(t)(x.Narrow(0, 0, 4))
	scores := must(t)(tensor.Zeros(b.Exec, tensor.Float64, 5, 5))
	for name, f := range map[string]func() error{
		"shape": func() error {
			_, err := gradients.Attention(short, x, x, x, out, lse, tensor.Attention{}, false)
			return err
		},
		"dtype": func() error {
			_, err := gradients.Attention(wide, x, x, x, out, lse, tensor.Attention{}, false)
			return err
		},
		"shape, with a mask that is converted": func() error {
			mask := tensor.Attention{Mask: scores}
			_, err := gradients.Attention(short, x, x, x, out, lse, mask, false)
			return err
		},
		"value": func() error {
			_, err := gradients.Attention(x, x, x, x, out, lse, tensor.Attention{}, true)
			return err
		},
	} {
		before := b.allocated()
		want, _, _ := strings.Cut(name, ",")
		require.Equal(t, refusal(want), kindOf(f()))
		require.Equal(t, before, b.allocated())
	}
	_, err = gradients.Attention(x, x, x, x, out, x, tensor.Attention{}, false)
	require.Equal(t, refusal("shape"), kindOf(err))
	err = gradients.AttentionInto(training.Attention[*tensor.Tensor]{Q: x, K: x, V: short}, x, x, x, x, out, lse, tensor.Attention{})
	require.Equal(t, refusal("shape"), kindOf(err))
	err = gradients.AttentionInto(training.Attention[*tensor.Tensor]{Q: x, K: x}, x, x, x, x, out, lse, tensor.Attention{})
	require.ErrorIs(t, err, tensor.ErrReleased)
}

// The weights of a row with an infinite score are NaN, as softmax's, and so is the logarithm that backward needs.
func TestAttention_OfAnInfiniteScoreIsNaN(t *testing.T) {
	b := onHost(t)
	q := must(t)(tensor.FromSlice(b.Exec, []float32{float32(math.Inf(1)), 1}, 2, 1))
	k := must(t)(tensor.FromSlice(b.Exec, []float32{1, -1}, 2, 1))
	out, lse, err := gradients.AttentionForward(q, k, k, tensor.Attention{})
	require.NoError(t, err)
	t.Cleanup(out.Release)
	t.Cleanup(lse.Release)
	for i, v := range [][]float64{values(t, out), values(t, lse)} {
		require.True(t, math.IsNaN(v[0]), "result %d: %v", i, v)
		require.False(t, math.IsNaN(v[1]), "result %d: %v", i, v)
	}
}
