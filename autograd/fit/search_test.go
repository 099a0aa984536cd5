package fit

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLargest_OfWhatFitsUpToANumber(t *testing.T) {
	for most := 1; most < 70; most++ {
		for limit := range 80 {
			tries := 0
			got, err := largest(most, func(n int) (bool, error) {
				require.True(t, n >= 1 && n <= most)
				tries++
				return n <= limit, nil
			})
			require.NoError(t, err)
			require.Equal(t, min(limit, most), got)
			require.LessOrEqual(t, tries, 7+6+beyond)
		}
	}
}

// Whatever fits: the result does, and those after it do not.
func TestLargest_OfWhatFitsHereAndThere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	islands := 0
	for range 2000 {
		most, fits := 1+r.IntN(100), map[int]bool{}
		limit := r.IntN(most + 1)
		for n := 1; n <= most; n++ {
			fits[n] = n <= limit || r.IntN(4) == 0
		}
		seen := map[int]bool{}
		got, err := largest(most, func(n int) (bool, error) {
			require.False(t, seen[n], "tried twice")
			seen[n] = true
			return fits[n], nil
		})
		require.NoError(t, err)
		require.True(t, got == 0 || fits[got])
		for n := got + 1; n <= min(got+beyond, most); n++ {
			require.False(t, fits[n], "%d after %d", n, got)
		}
		require.GreaterOrEqual(t, got, min(limit, most))
		if got > limit {
			islands++
		}
	}
	require.Greater(t, islands, 100)
}

// Where few or many fit, here and there, without end: not all of them are tried.
func TestLargest_IsLogarithmicWhateverFits(t *testing.T) {
	const most = 1 << 24
	for name, c := range map[string]struct {
		fits func(n int) bool
		want func(got int) bool
	}{
		"none":               {func(int) bool { return false }, func(got int) bool { return got == 0 }},
		"all but 1":          {func(n int) bool { return n > 1 }, func(got int) bool { return got == most }},
		"from 60 on":         {func(n int) bool { return n >= 60 }, func(got int) bool { return got == most }},
		"from 1000 on":       {func(n int) bool { return n >= 1000 }, func(got int) bool { return got == 0 }},
		"from 7 to 5000":     {func(n int) bool { return n >= 7 && n <= 5000 }, func(got int) bool { return got == 5000 }},
		"odd":                {func(n int) bool { return n%2 == 1 }, func(got int) bool { return got%2 == 1 && got > 30 }},
		"odd to 101":         {func(n int) bool { return n%2 == 1 && n < 102 }, func(got int) bool { return got == 101 }},
		"every fourth":       {func(n int) bool { return n%4 == 1 }, func(got int) bool { return got%4 == 1 && got > 60 }},
		"all but the powers": {func(n int) bool { return n&(n-1) != 0 }, func(got int) bool { return got > 30 }},
	} {
		tries := 0
		got, err := largest(most, func(n int) (bool, error) {
			tries++
			return c.fits(n), nil
		})
		require.NoError(t, err, name)
		require.True(t, c.want(got), "%s: %d", name, got)
		require.True(t, got == 0 || c.fits(got), "%s: %d", name, got)
		require.Less(t, tries, 500, name)
	}
}

func TestLargest_EndsWithTheFirstError(t *testing.T) {
	wrong := errors.New("wrong")
	for at := range 9 {
		tries := 0
		_, err := largest(100, func(n int) (bool, error) {
			if tries++; tries > at {
				return true, wrong
			}
			return n <= 20, nil
		})
		require.ErrorIs(t, err, wrong)
		require.Equal(t, at+1, tries)
	}
}

func TestPerSample_IsFromTheNearestPowerOfTwoThatFits(t *testing.T) {
	for _, c := range []struct {
		batch int
		bytes int64
		fit   map[int]int64
		want  int64
	}{
		{12, 150, map[int]int64{1: 5, 2: 10, 4: 40, 8: 110}, 10},
		{65, 1000, map[int]int64{1: 5, 32: 670, 48: 1}, 10},
		{1, 1000, map[int]int64{1: 1000}, 0},
	} {
		fit := allocating(c.fit)
		less := below(c.batch, fit)
		require.Equal(t, c.want, perSample(c.batch, c.bytes, less, fit[less].allocated))
	}
}

func allocating(bytes map[int]int64) map[int]outcome {
	fit := map[int]outcome{}
	for batch, n := range bytes {
		fit[batch] = outcome{allocated: n}
	}
	return fit
}
