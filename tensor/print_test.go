package tensor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestFormat_PrintsTypeShapeAndValues(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 2, 3)
	require.Equal(t, "float32 [2, 3] on host\n⎡0  1  2⎤\n⎣3  4  5⎦\n", x.String())
	require.Equal(t, "float32 [2, 3] on host\n⎡0.0  1.0  2.0⎤\n⎣3.0  4.0  5.0⎦\n", fmt.Sprintf("%.1f", x))
	require.Equal(t, "float32 [3] on host\n[0  1  2]", fmt.Sprint(must(t)(x.Select(0, 0))))
	require.Equal(t, "float32 [] on host\n4", fmt.Sprint(must(t)(must(t)(x.Select(0, 1)).Select(0, 1))))
	require.Equal(t, "bool [2] on host\n[false   true]", fmt.Sprint(must(t)(must(t)(x.Select(1, 0)).To(tensor.Bool))))
	require.Equal(t, "int64 [0, 2] on host\n[]", fmt.Sprint(must(t)(tensor.Zeros(b.Exec, tensor.Int64, 0, 2))))
	sim, _ := onSim(t)
	y := must(t)(tensor.Zeros(sim.Exec, tensor.Float32, 2))
	require.Equal(t, fmt.Sprintf("float32 [2] on %s (no storage)", sim.Device().ID()), y.String())
	x.Release()
	require.Equal(t, "tensor(released)", x.String())
	require.Equal(t, "tensor(nil)", fmt.Sprint((*tensor.Tensor)(nil)))
}

func TestFormat_BringsOnlyTheEndsOfLargeTensorsToTheHost(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 100, 200)
	text := x.String()
	require.True(t, strings.HasPrefix(text, "float32 [100, 200] on host\n"), text)
	for _, corner := range []string{"0  ", " 3  ", "  199⎤", "⎣19800", "19999⎦", "..."} {
		require.Contains(t, text, corner)
	}
	require.NotContains(t, text, " 204 ", "column 4 is in the gap")
	require.Less(t, len(text), 800)
	vector := iota(t, b.Exec, 5000)
	require.Equal(t, "float32 [5000] on host\n[   0     1     2     3  ... 4996  4997  4998  4999]", vector.String())
	cube := iota(t, b.Exec, 20, 20, 20)
	require.Equal(t, 8, strings.Count(cube.String(), "⎡"), "four matrices of each end")
	require.Contains(t, cube.String(), "1599⎦\n\n...\n\n⎡6400")
	whole := fmt.Sprintf("%#v", vector)
	require.NotContains(t, whole, "...", "with # nothing is left out")
	require.Contains(t, whole, " 2500 ")
}

func TestFormat_PrintsEveryShapeAndFlag(t *testing.T) {
	b := onHost(t)
	for _, c := range []struct {
		format, want string
		shape        []int
	}{
		{"%v", "[1, 1] on host\n[0]\n", []int{1, 1}},
		{"%v", "[1, 3] on host\n[0  1  2]\n", []int{1, 3}},
		{"%v", "[3, 1] on host\n⎡0⎤\n⎢1⎥\n⎣2⎦\n", []int{3, 1}},
		{"%v", "[2, 2, 1] on host\n⎡0⎤\n⎣1⎦\n\n⎡2⎤\n⎣3⎦\n", []int{2, 2, 1}},
		{"%v", "[2, 1, 2] on host\n[0  1]\n\n[2  3]\n", []int{2, 1, 2}},
		{"%v", "[9] on host\n[0  1  2  3  ... 5  6  7  8]", []int{9}},
		{"%#v", "[9] on host\n[0  1  2  3  4  5  6  7  8]", []int{9}},
		{"%-v", "[2, 2] on host\n[0 1 2 3]", []int{2, 2}},
		{"%-v", "[1] on host\n[0]", []int{1}},
		{"%-v", "[2, 5000] on host\n[0 1 2 3 ... 9996 9997 9998 9999]", []int{2, 5000}},
		{"%-#v", "[3, 3] on host\n[0 1 2 3 4 5 6 7 8]", []int{3, 3}},
		{"%+.1f", "[2] on host\n[+0.0  +1.0]", []int{2}},
		{"%6.2f", "[2] on host\n[  0.00    1.00]", []int{2}},
		{"%s", "[2] on host\n[0  1]", []int{2}},
	} {
		require.Equal(t, "float32 "+c.want, fmt.Sprintf(c.format, iota(t, b.Exec, c.shape...)), "%s of %v", c.format, c.shape)
	}
	whole := must(t)(iota(t, b.Exec, 12).To(tensor.Int64))
	require.Equal(t, "int64 [12] on host\n[0  1  2  3  ... 8  9  a  b]", fmt.Sprintf("%x", whole))
	half := must(t)(must(t)(tensor.Full(b.Exec, 0.1, tensor.Float16, 2)).Contiguous())
	require.Equal(t, "float16 [2] on host\n[0.099975586  0.099975586]", half.String())
}
