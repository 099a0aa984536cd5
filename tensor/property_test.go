package tensor_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// The tests in this file compare with plain loops over indices, which know nothing of strides.

// eachIndex calls f with each index of a shape, in row-major order.
func eachIndex(shape []int, f func(index []int)) {
	index := make([]int, len(shape))
	var at func(dim int)
	at = func(dim int) {
		if dim == len(shape) {
			f(index)
			return
		}
		for i := range shape[dim] {
			index[dim] = i
			at(dim + 1)
		}
	}
	at(0)
}

// flat is the place of an index in row-major order of shape, where the index may have more dimensions in front, and where
// dimensions of one element repeat: what broadcasting means.
func flat(shape, index []int) int {
	place := 0
	for i, d := range shape {
		j := index[len(index)-len(shape)+i]
		if d == 1 {
			j = 0
		}
		place = place*d + j
	}
	return place
}

// randomPair is two shapes that broadcast, and what to.
func randomPair(r *rand.Rand) (a, b, out []int) {
	for range r.IntN(5) {
		d := r.IntN(4)
		out = append(out, d)
		switch r.IntN(4) {
		case 0:
			a, b = append(a, 1), append(b, d)
		case 1:
			a, b = append(a, d), append(b, 1)
		default:
			a, b = append(a, d), append(b, d)
		}
	}
	cut := 0
	if len(out) > 0 {
		cut = r.IntN(len(out))
	}
	if r.IntN(2) == 0 {
		a, b = b, a
	}
	for i := range cut { // leading dimensions of a are dropped: out is b's there
		out[i] = b[i]
	}
	return append([]int{}, a[cut:]...), b, out
}

// scattered makes a tensor of random numbers with random strides: a permuted slice of something larger.
func scattered(t *testing.T, r *rand.Rand, e tensor.Exec, shape []int) *tensor.Tensor {
	order := r.Perm(len(shape))
	step := 1 + r.IntN(2)
	larger := make([]int, len(shape))
	for i, dim := range order {
		larger[dim] = shape[i] * step
	}
	data := make([]float64, tensor.Shape(larger).Len())
	for i := range data {
		data[i] = float64(r.IntN(100) - 50)
	}
	x := must(t)(tensor.FromSlice(e, data, larger...))
	x = must(t)(x.Permute(order...))
	for dim := range shape {
		x = must(t)(x.Slice(dim, 0, tensor.End, step))
	}
	require.Equal(t, tensor.Shape(shape).String(), x.Shape().String())
	return x
}

func TestBroadcasting_IsWhatLoopsSay(t *testing.T) {
	b := onHost(t)
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		sa, sb, out := randomPair(r)
		x, y := scattered(t, r, b.Exec, sa), scattered(t, r, b.Exec, sb)
		vx, vy := values(t, x), values(t, y)
		var want []float64
		eachIndex(out, func(i []int) { want = append(want, vx[flat(sa, i)]-2*vy[flat(sb, i)]) })

		got := must(t)(x.AddScaled(y, -2))
		require.Equal(t, tensor.Shape(out).String(), got.Shape().String(), "%v and %v", sa, sb)
		require.ElementsMatch(t, want, values(t, got), "%v and %v", sa, sb)
		require.Equal(t, append([]float64{}, want...), append([]float64{}, values(t, got)...))
		require.True(t, got.InMemoryFormat())
		shape, err := tensor.BroadcastShapes(sa, sb)
		require.NoError(t, err)
		require.Equal(t, tensor.Shape(out).String(), shape.String())

		// The gradient of broadcasting: each element of a gets the sum over the places where it was used.
		sums := make([]float64, len(vx))
		k := 0
		eachIndex(out, func(i []int) { sums[flat(sa, i)] += want[k]; k++ })
		back := must(t)(got.SumTo(sa...))
		require.Equal(t, tensor.Shape(sa).String(), back.Shape().String())
		require.Equal(t, sums, values(t, back))

		expanded := must(t)(x.Expand(out...))
		again := must(t)(expanded.Clone())
		require.Equal(t, values(t, expanded), values(t, again))
	}
}

func TestBroadcasting_RefusesShapesThatDoNotFit(t *testing.T) {
	b := onHost(t)
	var wrong *tensor.ShapeError
	for _, c := range [][2][]int{{{2}, {3}}, {{2, 3}, {2}}, {{0}, {2}}, {{4, 1, 3}, {2, 2}}} {
		x, y := iota(t, b.Exec, c[0]...), iota(t, b.Exec, c[1]...)
		for _, name := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Maximum", "Eq", "And"} {
			_, err := operations[name](tensors{x, y}, nil)
			require.ErrorAs(t, err, &wrong, "%s of %v", name, c)
			require.Equal(t, name, wrong.Op)
			require.Equal(t, []tensor.Shape{c[0], c[1]}, wrong.Shapes)
		}
		_, err := tensor.BroadcastShapes(c[0], c[1])
		require.ErrorAs(t, err, &wrong)
	}
	_, err := iota(t, b.Exec, 3, 2).SumTo(3)
	require.ErrorAs(t, err, &wrong)
	_, err = iota(t, b.Exec, 2).SumTo(2, 2)
	require.ErrorAs(t, err, &wrong)
	require.EqualError(t, err, "tensor: SumTo: [2] and [2, 2]: the second does not broadcast to the first")
}

func TestReductions_AreWhatLoopsSay(t *testing.T) {
	b := onHost(t)
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		shape := make([]int, r.IntN(4))
		for i := range shape {
			shape[i] = r.IntN(4)
		}
		x := scattered(t, r, b.Exec, shape)
		v := values(t, x)
		var dims []int
		kept := append([]int{}, shape...)
		for d := range shape {
			if r.IntN(2) == 0 {
				dims = append(dims, d-r.IntN(2)*len(shape))
				kept[d] = 1
			}
		}
		if dims == nil {
			for d := range shape {
				kept[d] = 1
			}
		}
		sums := make([]float64, tensor.Shape(kept).Len())
		k := 0
		eachIndex(shape, func(i []int) { sums[flat(kept, i)] += v[k]; k++ })
		got := must(t)(x.Sum(dims, true))
		require.Equal(t, tensor.Shape(kept).String(), got.Shape().String())
		require.Equal(t, append([]float64{}, sums...), append([]float64{}, values(t, got)...), "%v over %v", shape, dims)
		dropped := must(t)(x.Sum(dims, false))
		require.Equal(t, values(t, got), values(t, dropped))
		require.True(t, dropped.IsContiguous())
	}
}

func TestReshape_KeepsTheOrderOfElements(t *testing.T) {
	b := onHost(t)
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		shape := []int{1 + r.IntN(3), 2 * (1 + r.IntN(2)), 3}[:1+r.IntN(3)]
		x := scattered(t, r, b.Exec, shape)
		n := x.Len()
		for _, to := range [][]int{{n}, {-1, 1}, {1, n}, {n / shape[0], shape[0]}} {
			y := must(t)(x.Reshape(to...))
			require.Equal(t, values(t, x), values(t, y), "%v to %v", shape, to)
			view, err := x.View(to...)
			require.Equal(t, err == nil, y.SharesStorage(x), "Reshape is View where View is possible")
			if err == nil {
				view.Release()
			}
		}
	}
}

func TestMatMul_OfScatteredOperandsIsWhatLoopsSay(t *testing.T) {
	b := onHost(t)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		m, k, n := r.IntN(5), r.IntN(5), r.IntN(5)
		ba, bb, batch := randomPair(r)
		sa, sb := append(append([]int{}, ba...), m, k), append(append([]int{}, bb...), k, n)
		x, y := scattered(t, r, b.Exec, sa), scattered(t, r, b.Exec, sb)
		vx, vy := values(t, x), values(t, y)
		want := []float64{}
		eachIndex(append(append([]int{}, batch...), m, n), func(i []int) {
			lead, row, col := i[:len(i)-2], i[len(i)-2], i[len(i)-1]
			sum := 0.0
			for j := range k {
				sum += vx[(flat(ba, lead)*m+row)*k+j] * vy[(flat(bb, lead)*k+j)*n+col]
			}
			want = append(want, sum)
		})
		got := must(t)(x.MatMul(y))
		require.Equal(t, tensor.Shape(append(batch, m, n)).String(), got.Shape().String())
		require.Equal(t, want, append([]float64{}, values(t, got)...), "%v @ %v", sa, sb)
	}
}
