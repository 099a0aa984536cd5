package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// The strides are those that PyTorch gives.
func TestClone_KeepsTheOrderOfElements(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 2, 3, 4)
	for _, c := range []struct {
		name string
		of   *tensor.Tensor
		want []int
	}{
		{"contiguous", x, []int{12, 4, 1}},
		{"transposed", must(t)(x.Permute(2, 0, 1)), []int{1, 12, 4}},
		{"with an offset", must(t)(must(t)(x.Select(0, 1)).Transpose(0, 1)), []int{1, 4}},
		{"with a dimension of one", must(t)(must(t)(x.Permute(2, 0, 1)).Unsqueeze(1)), []int{1, 12, 12, 4}},
		{"with gaps", must(t)(x.Slice(2, 0, 4, 2)), []int{6, 2, 1}},
		{"with gaps, transposed", must(t)(must(t)(x.Slice(2, 0, 4, 2)).Transpose(0, 2)), []int{1, 2, 6}},
		{"with gaps, permuted", must(t)(must(t)(x.Narrow(2, 0, 2)).Permute(2, 0, 1)), []int{1, 6, 2}},
		{"with gaps and a dimension of one", must(t)(must(t)(must(t)(x.Select(2, 0)).Unsqueeze(1)).Transpose(0, 2)), []int{1, 3, 3}},
		{"of a diagonal", must(t)(x.Diagonal(0, 0, 2)), []int{1, 3}},
		{"expanded", must(t)(must(t)(x.Narrow(0, 0, 1)).Expand(5, 3, 4)), []int{12, 4, 1}},
		{"expanded, permuted", must(t)(must(t)(must(t)(x.Narrow(0, 0, 1)).Expand(5, 3, 4)).Permute(2, 0, 1)), []int{1, 4, 20}},
		{"expanded, permuted once more", must(t)(must(t)(must(t)(x.Narrow(0, 0, 1)).Expand(5, 3, 4)).Permute(0, 2, 1)), []int{12, 1, 4}},
		{"expanded, the other way", must(t)(must(t)(must(t)(x.Narrow(0, 0, 1)).Expand(5, 3, 4)).Permute(2, 1, 0)), []int{5, 20, 1}},
		{"without elements", must(t)(must(t)(x.Narrow(1, 0, 0)).Transpose(0, 2)), nil},
	} {
		r := must(t)(c.of.Clone())
		require.Equal(t, values(t, c.of), values(t, r), c.name)
		require.False(t, r.SharesStorage(c.of), c.name)
		for i, n := range r.Shape() {
			if n > 1 && r.Len() > 0 {
				require.Equal(t, c.want[i], r.Strides()[i], "%s: dimension %d of %v", c.name, i, r.Strides())
			}
		}
	}
}
