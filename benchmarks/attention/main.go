// Command attention answers one question: how fast is attention, and what memory does it take, beside each of PyTorch's ways to compute it?
//
//	go run ./benchmarks/attention [-device cuda:0] [-shapes 16x12x1024x1024x64,...] [-types float16,bfloat16,float32] [-runs 3] [-json FILE]
//
// A shape is BxHxTxSxD:G: H heads of T queries and G heads of S keys, of D elements each, in B sequences. G divides H; without it they are as many. The
// default shapes are those of GPT-2, of a long text, of a small model, of heads of 96, of four heads of queries for each of keys, and of decoding: one
// query at a time.
//
// # What is measured
//
// "forward" is the result alone, as inference wants it; "backward" the gradients of queries, keys and values from a result that is
// there; "both" a step of training, by autograd on both sides, as is "backward". Causal attention is measured where there are as many
// queries as keys, gradients where there is more than one query. Operands lie in memory as [B, H, T, D] and [B, G, S, D], the gradient of the
// result as the result does: [B, T, H, D] for ours, in PyTorch as the backend likes.
//
// A cell is the median of the runs with the fastest and the slowest; a run makes calls for -duration, one behind the other, and waits
// for the last one. TFLOP/s count 4*B*H*T*S*D operations for forward, 2.5 times as many for backward (which computes the scores
// again), and half of them if it is causal: the convention of FlashAttention's authors. "host us" is what the host takes to issue
// a call; where it is nearly all of the time ("bound"), the number says nothing about the kernels. "peak" is what a call allocates above
// what was there before, with its results.
//
// # PyTorch
//
// Where -python has PyTorch for the device, it computes the same right afterwards, from the same inputs, with the same way of
// timing: by scaled_dot_product_attention with each of its backends forced, and "default", as it chooses itself. A PyTorch that has no
// such function computes it as written in a textbook ("written"). Ratios are to the fastest that was forced. "difference" is the
// largest one between elements of the results at 512 places of each, in parts of the largest there.
package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
	"github.com/cistern-ml/cistern/internal/command"
)

func main() { command.Main("attention", run) }

// defaults are GPT-2's training, a small model's, heads of 96, grouped queries, decoding and long sequences.
const defaults = "16x12x1024x1024x64,8x6x256x256x64,16x8x1024x1024x96,4x32x2048x2048x128:8,8x32x1x1024x128,8x32x1x8192x128,4x16x4096x4096x128"

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	p := peer.Program[shape, problem, *result]{Bench: o.bench(), Name: "attention", Shapes: defaults, Read: shapeOf, Ours: o.measureShape,
		Form: form + ": sequences, heads, queries, keys, elements, heads of keys"}
	return p.Run(args, stdout, stderr)
}

// options are the flags.
type options struct{ harness.Flags }

// form is that of a shape's text.
const form = "BxHxTxSxD:G"

func shapeOf(text string) (s shape, err error) {
	sizes, groups, grouped := strings.Cut(text, ":")
	ok := harness.Numbers(sizes, 1, &s.Batch, &s.Heads, &s.Queries, &s.Keys, &s.Width)
	if s.Groups = s.Heads; grouped {
		ok = ok && harness.Numbers(groups, 1, &s.Groups)
	}
	if !ok || s.Heads%s.Groups != 0 {
		return s, fmt.Errorf("%q is no "+form+" of which G divides H", text)
	}
	return s, nil
}
