package cpu

import (
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// loopOver is the loop over views whose first elements are at address 1000 and whose elements have one byte.
func loopOver(shape []int, strides ...[]int) *loop {
	views := make([]op.View, len(strides))
	for k, s := range strides {
		views[k] = op.View{Ptr: 1000, DType: dtype.Uint8, NDim: len(shape)}
		copy(views[k].Shape[:], shape)
		copy(views[k].Strides[:], s)
	}
	l := new(loop)
	l.set(&views[0], views[1:])
	return l
}

func TestLoop_JoinsDimensionsThatAllOperandsWalkAsOne(t *testing.T) {
	l := loopOver([]int{2, 3, 4}, []int{12, 4, 1}, []int{12, 4, 1})
	require.Equal(t, 1, l.ndim)
	require.Equal(t, 24, l.shape[0])
	require.True(t, l.ops[0].full && l.ops[1].full)

	l = loopOver([]int{2, 3, 4}, []int{12, 4, 1}, []int{0, 4, 1}) // broadcast along the first
	require.Equal(t, 2, l.ndim)
	require.Equal(t, []int{2, 12}, l.shape[:2])
	require.Equal(t, []int{0, 1}, l.ops[1].stride[:2])
	require.True(t, l.ops[0].full)
	require.False(t, l.ops[1].full)
}

func TestLoop_WalksTheOutputInTheOrderOfMemory(t *testing.T) {
	l := loopOver([]int{3, 4}, []int{1, 3}, []int{1, 3}) // both transposed
	require.Equal(t, 1, l.ndim, "two transposed operands are one walk")

	l = loopOver([]int{4}, []int{-1}, []int{1})
	require.EqualValues(t, 997, l.ops[0].ptr)
	require.Equal(t, 1, l.ops[0].stride[0])
	require.EqualValues(t, 1003, l.ops[1].ptr, "the input is walked from the other end too")
	require.Equal(t, -1, l.ops[1].stride[0])
}

func TestLoop_ScalarsAndEmptyViewsAreLoopsToo(t *testing.T) {
	l := loopOver(nil, nil)
	require.Equal(t, 1, l.total)
	require.Equal(t, 1, l.ndim)
	l = loopOver([]int{1, 1}, []int{7, 9}, []int{0, 0})
	require.Equal(t, 1, l.total)
	l = loopOver([]int{3, 0}, []int{1, 1})
	require.Zero(t, l.total)
}

func TestWalk_SkipsToTheSamePlaceAsSeek(t *testing.T) {
	l := loopOver([]int{3, 4, 5}, []int{40, 10, 1}, []int{1, 3, 12}, []int{0, 5, 0})
	require.Equal(t, 3, l.ndim)
	for from := 0; from < 60; from += 7 {
		var a walk
		a.seek(l, from)
		for at := from; at < 60; at++ {
			var b walk
			b.seek(l, at)
			for k := range 3 {
				pa, _ := a.at(k)
				pb, _ := b.at(k)
				require.Equal(t, pb, pa, "operand %d at %d from %d", k, at, from)
			}
			a.skip(1)
		}
	}
}

func TestWalk_PiecesStayInARow(t *testing.T) {
	l := loopOver([]int{3, 4}, []int{10, 1})
	var w walk
	w.seek(l, 2)
	var got [][3]int
	w.pieces(0, 9, func(at, n int, p device.Ptr, _ int) { got = append(got, [3]int{at, n, int(p)}) })
	require.Equal(t, [][3]int{{0, 2, 1002}, {2, 4, 1010}, {6, 3, 1020}}, got)
}
