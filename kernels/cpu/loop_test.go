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

func TestLoop_HasARowEvenOverOneElement(t *testing.T) {
	for _, l := range []*loop{loopOver(nil, nil, nil), loopOver([]int{1, 1}, []int{7, 9}, []int{0, 0})} {
		require.Equal(t, 1, l.Total)
		require.Equal(t, 1, l.NDim)
		require.Equal(t, 1, l.inner())
		require.Equal(t, [2]int{1, 1}, [2]int{l.Stride[0][0], l.Stride[1][0]})
		require.True(t, l.full[0] && l.full[1])
	}
	require.Zero(t, loopOver([]int{3, 0}, []int{1, 1}).Total)
}

func TestWalk_SkipsToTheSamePlaceAsSeek(t *testing.T) {
	l := loopOver([]int{3, 4, 5}, []int{40, 10, 1}, []int{1, 3, 12}, []int{0, 5, 0})
	require.Equal(t, 3, l.NDim)
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
