package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/kernels/op"
)

// attention checks calls of the given shapes of q, k, v, the result and lse, with a mask of the given shape if there is one.
func attention(q, k, v, r, lse, mask []int, causal int64) error {
	in := these(straight(f32, q...), straight(f32, k...), straight(f32, v...))
	if mask != nil {
		in = append(in, straight(f32, mask...))
	}
	return check(op.Attention, these(straight(f32, r...), straight(f32, lse...)), in, causal)
}

func TestCheck_OfAttention(t *testing.T) {
	q, k, v, r, lse, mask := []int{2, 4, 3, 8}, []int{2, 2, 5, 8}, []int{2, 2, 5, 6}, []int{2, 4, 3, 6}, []int{2, 4, 3}, []int{2, 4, 3, 5}
	require.NoError(t, attention(q, k, v, r, lse, nil, 0))
	require.NoError(t, attention(q, k, v, r, lse, nil, 1))
	require.NoError(t, attention(q, k, v, r, lse, mask, 0))
	wide := []int{2, 4, 3, op.MaxHead}
	require.NoError(t, attention(wide, []int{2, 2, 5, op.MaxHead}, v, r, lse, nil, 0))
	require.NoError(t, attention([]int{2, 0, 3, 8}, []int{2, 0, 5, 8}, []int{2, 0, 5, 6}, []int{2, 0, 3, 6}, []int{2, 0, 3}, nil, 0), "no heads")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"dimensions":       {attention(q[1:], k, v, r, lse, nil, 0), "shape [4 3 8], want four dimensions"},
		"heads":            {attention(q, []int{2, 3, 5, 8}, []int{2, 3, 5, 6}, r, lse, nil, 0), "do not give"},
		"no heads":         {attention(q, []int{2, 0, 5, 8}, []int{2, 0, 5, 6}, r, lse, nil, 0), "do not give"},
		"batch":            {attention(q, []int{1, 2, 5, 8}, []int{1, 2, 5, 6}, r, lse, nil, 0), "do not give"},
		"size of a head":   {attention(q, []int{2, 2, 5, 7}, v, r, lse, nil, 0), "do not give"},
		"values":           {attention(q, k, []int{2, 2, 4, 6}, r, lse, nil, 0), "do not give"},
		"queries":          {attention(q, k, v, []int{2, 4, 2, 6}, lse, nil, 0), "do not give"},
		"size of a result": {attention(q, k, v, []int{2, 4, 3, 8}, lse, nil, 0), "do not give"},
		"wide":             {attention([]int{2, 4, 3, 1025}, []int{2, 2, 5, 1025}, v, r, lse, nil, 0), "heads of 1025 and 6 elements"},
		"wide values":      {attention(q, k, []int{2, 2, 5, 1025}, []int{2, 4, 3, 1025}, lse, nil, 0), "heads of 8 and 1025 elements"},
		"lse":              {attention(q, k, v, r, []int{2, 4, 2}, nil, 0), "lse has shape [2 4 2], want a contiguous [2 4 3]"},
		"mask":             {attention(q, k, v, r, lse, []int{2, 4, 3, 4}, 0), "a mask of [2 4 3 4] with scores of [2 4 3 5]"},
		"mask and causal":  {attention(q, k, v, r, lse, mask, 1), "(causal: 1)"},
	} {
		require.ErrorIs(t, c.err, op.ErrCall, name)
		require.ErrorContains(t, c.err, c.want, name)
	}
}
