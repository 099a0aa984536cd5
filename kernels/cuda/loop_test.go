package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func view(d dtype.DType, p device.Ptr, shape, strides []int) op.View {
	v := op.View{Ptr: p, DType: d, NDim: len(shape)}
	copy(v.Shape[:], shape)
	copy(v.Strides[:], strides)
	return v
}

func TestVectors_TakeNeighboursAndBroadcasts(t *testing.T) {
	shape := []int{6, 32}
	dst := view(dtype.Float32, 1<<12, shape, []int{32, 1})
	cases := []struct {
		name    string
		p       device.Ptr
		strides []int
		width   int
	}{
		{"the same layout", 1 << 13, []int{32, 1}, 4},
		{"rows with gaps", 1 << 13, []int{36, 1}, 4},
		{"one row for all", 1 << 13, []int{0, 1}, 4},
		{"one column for all", 1<<13 + 4, []int{1, 0}, 4},
		{"a column of a matrix for all", 1<<13 + 4, []int{5, 0}, 4},
		{"one element for all", 1<<13 + 4, []int{0, 0}, 4},
		{"a row at an odd address", 1<<13 + 4, []int{0, 1}, 0},
		{"an odd address", 1<<13 + 8, []int{32, 1}, 0},
		{"rows at odd addresses", 1 << 13, []int{33, 1}, 0},
		{"flipped", 1 << 13, []int{1, 6}, 0},
		{"backwards", 1 << 13, []int{32, -1}, 0},
	}
	for _, c := range cases {
		var l loop
		l.Set(&dst, []op.View{view(dtype.Float32, c.p, shape, c.strides)})
		require.Equal(t, c.width, l.vectors(), c.name)
	}
	var l loop
	narrow := view(dtype.Float32, 1<<12, []int{6, 30}, []int{30, 1})
	l.Set(&narrow, []op.View{view(dtype.Float32, 1<<13, []int{6, 30}, []int{0, 1})})
	require.Zero(t, l.vectors(), "a row that is not of whole vectors")
}

func TestGrouped_CountsVectorsAndKeepsStridesInElements(t *testing.T) {
	dst := view(dtype.Float32, 1<<12, []int{6, 32}, []int{40, 1})
	var l loop
	l.Set(&dst, []op.View{view(dtype.Float32, 1<<13, []int{6, 32}, []int{0, 1}), view(dtype.Float32, 1<<14, []int{6, 32}, []int{1, 0})})
	g := l.grouped(4)
	require.Equal(t, 48, g.Total)
	require.Equal(t, []int{6, 8}, g.Shape[:2])
	require.Equal(t, [][]int{{40, 4}, {0, 4}, {1, 0}}, [][]int{g.Stride[0][:2], g.Stride[1][:2], g.Stride[2][:2]})
	flat := view(dtype.Float32, 1<<12, []int{67}, []int{1})
	l.Set(&flat, nil)
	g = l.grouped(4)
	require.Equal(t, 17, g.Total, "the last vector has fewer elements")
}

func TestHalves_CoverTheCallAlongItsLongestDimension(t *testing.T) {
	c := &op.Call{
		Op:  op.Add,
		Out: []op.View{view(dtype.Float32, 1000, []int{2, 7}, []int{7, 1})},
		In:  []op.View{view(dtype.Float32, 2000, []int{2, 7}, []int{0, -2}), view(dtype.Uint8, 3000, []int{2, 7}, []int{1, 0})},
	}
	var got []op.Call
	require.NoError(t, halves(c, func(h *op.Call) error {
		got = append(got, *h)
		return nil
	}))
	require.Len(t, got, 2)
	require.Equal(t, [8]int{2, 3}, got[0].Out[0].Shape)
	require.Equal(t, [8]int{2, 4}, got[1].Out[0].Shape)
	require.Equal(t, c.Out[0].Ptr, got[0].Out[0].Ptr)
	require.Equal(t, device.Ptr(1012), got[1].Out[0].Ptr)
	require.Equal(t, device.Ptr(2000-24), got[1].In[0].Ptr)
	require.Equal(t, device.Ptr(3000), got[1].In[1].Ptr)
	failed := op.Errorf(op.Add, op.ErrCall, "no")
	require.ErrorIs(t, halves(c, func(*op.Call) error { return failed }), op.ErrCall)
}

func TestPlan_SplitsOnlyReductionsOfFewOutputs(t *testing.T) {
	of := func(shape, reduced []int) (plan, uint64) {
		strides := make([]int, len(shape))
		step := 1
		for d := len(shape) - 1; d >= 0; d-- {
			strides[d] = step
			step *= shape[d]
		}
		c := &op.Call{Op: op.Sum, In: []op.View{view(dtype.Float32, 1<<20, shape, strides)}}
		c.Out = []op.View{view(dtype.Float32, 1<<12, reduced, strides)}
		task := new(task)
		task.separate(c)
		return task.plan(c.Op), reduceSpace(c)
	}
	p, space := of([]int{1 << 20}, []int{1})
	require.Equal(t, 256, p.lanes)
	require.Greater(t, p.splits, 64)
	require.Equal(t, uint64(p.splits)*4, space)
	p, space = of([]int{4096, 1000}, []int{4096, 1})
	require.Equal(t, plan{lanes: 64, part: 1000, splits: 1, width: 4}, p)
	require.Zero(t, space)
	p, _ = of([]int{64, 4096}, []int{1, 4096})
	require.True(t, p.across)
	require.Equal(t, 1, p.splits)
	p, _ = of([]int{100_000, 10}, []int{1, 10})
	require.True(t, p.across)
	require.Greater(t, p.splits, 100)
}
