package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The limits of a step of GPT-2 in bf16, a little above what it takes: docs/decisions.md has what it took before, and why.
const (
	mostOperations   = 400
	mostLibraryCalls = 150
	mostBytes        = 15_900_000_000
)

func TestCount_AStepOfGPT2IsFewOperations(t *testing.T) {
	r, text := figures(t, "-count", "-model", "gpt2", "-amp", "bf16")
	x := r.Results[0]
	require.LessOrEqual(t, x.Operations, mostOperations, text)
	require.LessOrEqual(t, x.LibraryCalls, mostLibraryCalls, text)
	require.LessOrEqual(t, x.BytesMoved, int64(mostBytes), text)

	require.Equal(t, 3+12*12, x.LibraryCalls, "a product of each weight forward and two backward: of four in each layer, and the logits'")
	require.Equal(t, 1, x.Kinds.Of("cast_many").Operations, "all weights are cast at once")
	require.Zero(t, x.Kinds.Of("cast bfloat16 to float32").Operations, "no gradient and no activation is widened")
	require.Contains(t, text, "adam_step")
}

// The bytes are those of the shapes: a smaller batch moves less, but as many operations, and float32 more.
func TestCount_FollowsShapesAndTypes(t *testing.T) {
	one := func(args ...string) Result {
		r, _ := figures(t, append([]string{"-count", "-model", "gpt", "-seq", "64"}, args...)...)
		return *r.Results[0]
	}
	small, large := one("-batch", "2", "-amp", "bf16"), one("-batch", "8", "-amp", "bf16")
	require.Equal(t, small.Operations, large.Operations)
	require.Less(t, small.BytesMoved, large.BytesMoved)
	float := one("-batch", "8")
	require.Greater(t, float.BytesMoved, large.BytesMoved)
	require.Zero(t, float.Kinds.Of("cast_many").Operations)
	require.Equal(t, large, one("-batch", "8", "-amp", "bf16"), "the same each time")
	sum := 0
	for _, k := range large.Kinds {
		sum += k.Operations
	}
	require.Equal(t, large.Operations, sum)
}

func TestCount_GoesWithFewFlags(t *testing.T) {
	for _, args := range [][]string{{"-plan"}, {"-varying", "4"}, {"-traces", "."}} {
		var stdout, stderr discarded
		require.Equal(t, 2, run(append([]string{"-count"}, args...), &stdout, &stderr))
	}
}

type discarded struct{}

func (discarded) Write(b []byte) (int, error) { return len(b), nil }

// The limit of a step of ResNet-18 in bf16 and channels_last, a little above what it takes: its convolutions copy next to nothing into that order.
const mostResNetOperations = 400

func TestCount_ChannelsLastLeavesOutTheCopiesOfConvolutions(t *testing.T) {
	first, _ := figures(t, "-count", "-model", "resnet", "-amp", "bf16")
	last, text := figures(t, "-count", "-model", "resnet", "-amp", "bf16", "-last")
	a, b := first.Results[0], last.Results[0]
	require.LessOrEqual(t, b.Operations, mostResNetOperations, text)
	convolutions := func(x *Result) (n int) {
		for _, k := range []string{"conv2d", "conv2d_backward_input", "conv2d_backward_weight"} {
			n += x.Kinds.Of(k).Operations
		}
		return n
	}
	require.Equal(t, a.Operations-convolutions(a), b.Operations-convolutions(b), "nothing else is copied: %s", text)
	require.LessOrEqual(t, convolutions(b), 2*convolutions(a)/3)
}
