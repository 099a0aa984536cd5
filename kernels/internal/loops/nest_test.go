package loops

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// over is the nest over views whose first elements are at address 1000 and whose elements have one byte.
func over(shape []int, strides ...[]int) *Nest {
	views := make([]op.View, len(strides))
	for k, s := range strides {
		views[k] = view(dtype.Uint8, 1000, shape, s)
	}
	l := new(Nest)
	l.Set(&views[0], views[1:])
	return l
}

func view(d dtype.DType, p device.Ptr, shape, strides []int) op.View {
	v := op.View{Ptr: p, DType: d, NDim: len(shape)}
	copy(v.Shape[:], shape)
	copy(v.Strides[:], strides)
	return v
}

func TestNest_JoinsDimensionsThatAllOperandsWalkAsOne(t *testing.T) {
	l := over([]int{2, 3, 4}, []int{12, 4, 1}, []int{12, 4, 1})
	require.Equal(t, 1, l.NDim)
	require.Equal(t, 24, l.Shape[0])
	require.True(t, l.Contiguous(0) && l.Contiguous(1))

	l = over([]int{2, 3, 4}, []int{12, 4, 1}, []int{0, 4, 1}) // broadcast along the first
	require.Equal(t, 2, l.NDim)
	require.Equal(t, []int{2, 12}, l.Shape[:2])
	require.Equal(t, []int{0, 1}, l.Stride[1][:2])
	require.True(t, l.Contiguous(0))
	require.False(t, l.Contiguous(1))
}

func TestNest_WalksTheOutputInTheOrderOfMemory(t *testing.T) {
	l := over([]int{3, 4}, []int{1, 3}, []int{1, 3}) // both transposed
	require.Equal(t, 1, l.NDim, "two transposed operands are one walk")

	l = over([]int{4}, []int{-1}, []int{1})
	require.EqualValues(t, 997, l.Ptr[0])
	require.Equal(t, 1, l.Stride[0][0])
	require.EqualValues(t, 1003, l.Ptr[1], "the input is walked from the other end too")
	require.Equal(t, -1, l.Stride[1][0])
}

func TestNest_OverOneElementHasNoDimensions(t *testing.T) {
	l := over(nil, nil)
	require.Equal(t, 1, l.Total)
	require.Zero(t, l.NDim)
	l = over([]int{1, 1}, []int{7, 9}, []int{0, 0})
	require.Equal(t, 1, l.Total)
	require.Zero(t, l.NDim)
	l = over([]int{3, 0}, []int{1, 1})
	require.Zero(t, l.Total)
}

// visit is where one element of each operand lies.
type visit [MaxOperands]device.Ptr

// visits walks views or a nest in row-major order.
func visits(shape []int, ptr, size []int, stride [][]int) (all []visit) {
	index := make([]int, len(shape))
	for {
		var v visit
		for k := range ptr {
			at := 0
			for d, i := range index {
				at += i * stride[k][d]
			}
			v[k] = device.Ptr(ptr[k] + at*size[k])
		}
		all = append(all, v)
		d := len(shape) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return all
		}
	}
}

// TestNest_VisitsWhatTheViewsDo compares nests over random views with the walk over all indices.
func TestNest_VisitsWhatTheViewsDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	types := []dtype.DType{dtype.Uint8, dtype.Float16, dtype.Float32, dtype.Float64}
	merged := 0
	for range 2000 {
		shape := make([]int, r.IntN(6))
		for d := range shape {
			shape[d] = 1 + r.IntN(4)
		}
		n := 1 + r.IntN(MaxOperands)
		views, ptr, size, stride := make([]op.View, n), make([]int, n), make([]int, n), make([][]int, n)
		common := r.Perm(len(shape))
		for k := range views {
			order := common
			if r.IntN(4) == 0 {
				order = r.Perm(len(shape))
			}
			stride[k] = randomStrides(r, shape, order, k > 0)
			d := types[r.IntN(len(types))]
			ptr[k], size[k] = 1<<20*(k+1), d.Size()
			views[k] = view(d, device.Ptr(ptr[k]), shape, stride[k])
		}
		var l Nest
		l.Set(&views[0], views[1:])

		simple := make([][]int, n)
		at := make([]int, n)
		for k := range simple {
			simple[k], at[k] = l.Stride[k][:l.NDim], int(l.Ptr[k])
		}
		want, got := visits(shape, ptr, size, stride), visits(l.Shape[:l.NDim], at, size, simple)
		require.Len(t, want, l.Total)
		require.True(t, slices.IsSortedFunc(got, byOutput), "the output is not written in the order of memory: %v %v", shape, stride)
		slices.SortFunc(want, byOutput)
		require.Equal(t, want, got, "%v %v", shape, stride)
		for d := range l.NDim {
			require.NotEqual(t, 1, l.Shape[d])
			require.False(t, d > 0 && l.oneWalk(d-1, d), "dimensions %d and %d of %v are one: %v", d-1, d, shape, stride)
		}
		dims := 0
		for _, s := range shape {
			dims += min(1, s-1)
		}
		if l.NDim < dims {
			merged++
		}
	}
	require.Greater(t, merged, 200, "hardly any dimension was merged")
}

func byOutput(a, b visit) int { return int(a[0]) - int(b[0]) }

// randomStrides are those of memory that holds each element once, dimensions in the given order, with gaps and flips; of an input,
// dimensions may be broadcast.
func randomStrides(r *rand.Rand, shape, order []int, input bool) []int {
	strides, step := make([]int, len(shape)), 1
	for _, d := range order {
		if r.IntN(6) == 0 {
			step += 1 + r.IntN(3)
		}
		strides[d] = step
		step *= shape[d]
		switch {
		case r.IntN(6) == 0:
			strides[d] = -strides[d]
		case input && r.IntN(6) == 0:
			strides[d] = 0
		}
	}
	return strides
}
