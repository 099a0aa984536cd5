package memory

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Random parts, against a table with an entry for each page.
func TestRuns_EqualATable(t *testing.T) {
	const pages = 24
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s runs
		var has [pages]bool
		for range 60 {
			from := r.IntN(pages)
			to := from + 1 + r.IntN(pages-from)
			all, none := true, true
			for _, x := range has[from:to] {
				all, none = all && x, none && !x
			}
			part := run{uint64(from), uint64(to)}
			require.Equal(t, all, s.has(part.from, part.to))
			for _, x := range s.lacks(part.from, part.to) {
				for i := x.from; i < x.to; i++ {
					require.False(t, has[i])
				}
				none = none && x == part
			}
			if none || all {
				if all {
					s.remove(part)
				} else {
					s.add(part)
				}
				for i := from; i < to; i++ {
					has[i] = !all
				}
			} else {
				for _, x := range s.lacks(part.from, part.to) {
					s.add(x)
				}
				require.Empty(t, s.lacks(part.from, part.to))
				for i := from; i < to; i++ {
					has[i] = true
				}
			}
			requireRuns(t, has[:], &s)
		}
	}
}

// requireRuns compares all that runs say of themselves with a table.
func requireRuns(t *testing.T, has []bool, s *runs) {
	t.Helper()
	var want runs
	for i := 0; i < len(has); {
		j := i
		for j < len(has) && has[j] == has[i] {
			j++
		}
		if has[i] {
			want.list = append(want.list, run{uint64(i), uint64(j)})
			want.bytes += uint64(j - i)
			if i == 0 {
				want.head = uint64(j)
			}
		}
		i = j
	}
	require.Equal(t, len(want.list), len(s.list))
	for i, x := range want.list {
		require.Equal(t, x, s.list[i])
	}
	require.Equal(t, want.bytes, s.bytes)
	require.Equal(t, want.head, s.head)
}
