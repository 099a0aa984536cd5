package parallel_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

var _ data.Sampler = (*parallel.Sampler)(nil)

func order(t *testing.T, s *parallel.Sampler) []int64 {
	t.Helper()
	seq, err := s.Order()
	require.NoError(t, err)
	list := slices.Collect(seq)
	require.Len(t, list, s.Len())
	return list
}

// By hand from the rule of torch.utils.data.DistributedSampler without shuffling: the list is filled up from its start (or cut), and a rank takes every ranks-th example.
func TestSampler_DealsAsPyTorchDoes(t *testing.T) {
	for _, c := range []struct {
		n, ranks int
		drop     bool
		want     [][]int64
	}{
		{10, 4, false, [][]int64{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}}},
		{10, 4, true, [][]int64{{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
		{8, 4, true, [][]int64{{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
		{2, 5, false, [][]int64{{0}, {1}, {0}, {1}, {0}}},
		{3, 4, true, [][]int64{nil, nil, nil, nil}},
		{0, 2, false, [][]int64{nil, nil}},
		{3, 1, false, [][]int64{{0, 1, 2}}},
	} {
		for rank, want := range c.want {
			var opts []parallel.SamplerOption
			if c.drop {
				opts = append(opts, parallel.DropLast())
			}
			require.Equal(t, want, order(t, parallel.NewSampler(c.n, rank, c.ranks, opts...)), "%d examples, rank %d of %d", c.n, rank, c.ranks)
		}
	}
}

// Shuffled, the ranks have each example once, in another order in each epoch, which the seed decides.
func TestSampler_ShufflesAlikeOnAllRanks(t *testing.T) {
	epoch := func(seed uint64, e int) (whole []int64) {
		lists := make([][]int64, 3)
		for rank := range lists {
			s := parallel.NewSampler(12, rank, 3, parallel.Shuffle(seed))
			s.SetEpoch(e)
			lists[rank] = order(t, s)
		}
		for k := range lists[0] {
			whole = append(whole, lists[0][k], lists[1][k], lists[2][k])
		}
		return whole
	}
	first := epoch(7, 0)
	require.Equal(t, first, epoch(7, 0))
	require.NotEqual(t, first, epoch(7, 1))
	require.NotEqual(t, first, epoch(8, 0))
	sorted := slices.Sorted(slices.Values(first))
	require.NotEqual(t, sorted, first)
	for i, v := range sorted {
		require.EqualValues(t, i, v)
	}
}

func TestSampler_RefusesWhatCannotBe(t *testing.T) {
	for _, s := range []*parallel.Sampler{nil, {}, parallel.NewSampler(-1, 0, 1), parallel.NewSampler(3, 2, 2), parallel.NewSampler(3, -1, 2), parallel.NewSampler(3, 0, 0)} {
		_, err := s.Order()
		var e *parallel.Error
		require.ErrorAs(t, err, &e)
		require.Zero(t, s.Len())
		s.SetEpoch(3)
	}
}
