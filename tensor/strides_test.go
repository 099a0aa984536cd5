package tensor_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/tensor"
)

// Strides of dimensions of one element lead nowhere, and so do all strides of a tensor without elements. Views have whatever their
// slices, expansions and transpositions left there, and no operation may read it.

// odd are views of x's elements in x's shape, whose strides that lead nowhere are those of other views.
var odd = map[string]func(t testing.TB, x *tensor.Tensor) *tensor.Tensor{
	"huge": func(t testing.TB, x *tensor.Tensor) *tensor.Tensor { return stepped(t, x, 1<<33+7) },
	"zero": func(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
		for d, n := range x.Shape() {
			if n == 1 {
				x = must(t)(must(t)(x.Squeeze(d)).Unsqueeze(d))
				shape := slices.Insert(slices.Clone(x.Shape()), d, 7) // what was expanded, and then narrowed
				x = must(t)(must(t)(must(t)(must(t)(x.Unsqueeze(d)).Expand(shape...)).Narrow(d, 3, 1)).Select(d+1, 0))
			}
		}
		return x
	},
	"moved": moved,
}

// stepped has gone through slices with a large step.
func stepped(t testing.TB, x *tensor.Tensor, step int) *tensor.Tensor {
	for d, n := range x.Shape() {
		if n <= 1 {
			x = must(t)(x.Slice(d, 0, n, step))
		}
	}
	return x
}

// moved has its dimensions of one element from behind all others, where their strides are 1.
func moved(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
	var order []int
	for d, n := range x.Shape() {
		if n != 1 {
			order = append(order, d)
		}
	}
	for d, n := range x.Shape() {
		if n == 1 {
			order = append(order, d)
		}
	}
	back := make([]int, len(order))
	for at, d := range order {
		back[d] = at
	}
	return must(t)(must(t)(must(t)(x.Permute(order...)).Clone()).Permute(back...))
}

// shrunk are the sample with one of its sizes, or all of them, in all of its inputs and arguments replaced by n.
func (s sample) shrunk(n int) []sample {
	seen := map[string]bool{}
	var list []sample
	replace := func(size string, arguments bool) {
		r := s
		words := strings.FieldsFunc(s.in, func(r rune) bool { return strings.ContainsRune("[] ", r) })
		for _, w := range words {
			if v, err := strconv.Atoi(w); err == nil && v > 1 && (size == "" || w == size) {
				seen[w] = true
			}
		}
		r.in = rewrite(s.in, func(w string) string {
			if v, err := strconv.Atoi(w); err == nil && v > 1 && (size == "" || w == size) {
				return strconv.Itoa(n)
			}
			return w
		})
		if arguments {
			r.args = slices.Clone(s.args)
			for i, a := range r.args {
				if v, ok := a.(float64); ok && strconv.FormatFloat(v, 'f', -1, 64) == size {
					r.args[i] = float64(n)
				}
			}
		}
		list = append(list, r)
	}
	replace("", false)
	sizes := make([]string, 0, len(seen))
	for w := range seen {
		sizes = append(sizes, w)
	}
	slices.Sort(sizes)
	for _, w := range sizes {
		replace(w, false)
		replace(w, true)
	}
	return list
}

// rewrite replaces the words of a sample's inputs.
func rewrite(in string, f func(string) string) string {
	var b strings.Builder
	word := ""
	for _, r := range in + "\n" {
		if strings.ContainsRune("[] \n", r) {
			b.WriteString(f(word))
			word = ""
			if r != '\n' {
				b.WriteRune(r)
			}
			continue
		}
		word += string(r)
	}
	return b.String()
}

// strideSamples are those of operations whose sizes follow from their arguments.
var strideSamples = []sample{
	{"Reshape", "float32[1 3 2]", args{3.0, 2.0}}, {"Narrow", "float32[5 1]", args{0.0, 1.0, 2.0}},
	{"MaxPoolGrad", "float32[1 1 4] uint8[1 1 4]", args{3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 7.0}},
	{"MaxPoolPick", "float32[1 1 7] uint8[1 1 4]", args{3.0, 2.0, 1.0, 1.0}},
	{"AvgPoolGrad", "float32[1 1 4 4]", args{3.0, 2.0, 1.0, 2.0, 1.0, 1.0, 7.0, 8.0}},
	{"Conv2d", "float32[1 32 1 9] float32[8 32 1 3]", args{1.0, 0.0, 1.0, 1.0}},
	{"Conv2d", "float32[1 1 9 1] float32[1 1 3 1] float32[1]", args{1.0, 0.0, 1.0, 1.0}},
	{"MatMul", "float32[1 70] float32[70 65]", nil}, {"MatMul", "float32[3 40 1] float32[3 1 50]", nil},
}

func TestEveryOperation_ReadsNoStrideThatLeadsNowhere(t *testing.T) {
	b := onHost(t)
	compared := map[string]bool{}
	for _, s := range append(slices.Clone(samples), strideSamples...) {
		for _, v := range slices.Concat([]sample{s}, s.shrunk(1), s.shrunk(0)) {
			compared[s.op] = v.compareStrides(t, b) || compared[s.op]
		}
	}
	for name := range operations {
		assert.True(t, compared[name], "%s was never compared", name)
	}
}

// compareStrides runs a sample on contiguous tensors and on views of the same elements. It returns false if the operation refuses
// the sample.
func (s sample) compareStrides(t *testing.T, b bench) bool {
	in := s.inputs(t, b.Exec)
	packed := make(tensors, len(in))
	for i, x := range in {
		packed[i] = must(t)(x.Clone())
	}
	out, err := s.run(packed)
	if err != nil {
		return false
	}
	defer out.Release()
	if err := b.Stream().Synchronize(context.Background()); err != nil { // what a GPU tells only now: indices beyond a dimension that was cut
		require.ErrorIs(t, err, op.ErrIndex)
		return false
	}
	want := bits(values(t, out))
	for name, view := range odd {
		views := make(tensors, len(in))
		for i, x := range in {
			views[i] = view(t, must(t)(x.Clone()))
			require.Equal(t, x.Shape(), views[i].Shape())
		}
		got, err := s.run(views)
		require.NoError(t, err, "%v, strides %s", s, name)
		assert.Equal(t, out.Shape(), got.Shape(), "%v, strides %s", s, name)
		assert.Equal(t, want, bits(values(t, got)), "%v, strides %s", s, name)
		got.Release()
	}
	return true
}
