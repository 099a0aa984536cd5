package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoose_DrawsFromTheLikeliestAsOftenAsTheyAreLikely(t *testing.T) {
	logits := []float64{0, math.Log(6), math.Log(3), math.Log(2)} // 1, 6, 3, 2 of 12
	random := rand.New(rand.NewPCG(1, 0))
	require.Equal(t, int64(1), sampling{}.choose(logits, random))
	count := func(s sampling) (parts [4]float64) {
		const n = 20000
		for range n {
			parts[s.choose(logits, random)] += 1.0 / n
		}
		return parts
	}
	for s, want := range map[sampling][4]float64{
		{temperature: 1}:            {1. / 12, 6. / 12, 3. / 12, 2. / 12},
		{temperature: 1, topK: 2}:   {0, 6. / 9, 3. / 9, 0},
		{temperature: 0.5}:          {1. / 50, 36. / 50, 9. / 50, 4. / 50},
		{temperature: 1, topK: 100}: {1. / 12, 6. / 12, 3. / 12, 2. / 12},
		{temperature: 1, topK: 1}:   {0, 1, 0, 0},
	} {
		got := count(s)
		require.InDeltaSlice(t, want[:], got[:], 0.015, "%+v", s)
	}
}

// counting is a decoder whose likeliest token is one more than the last.
type counting struct{ asked int }

func (c *counting) next(ids []int64) ([]float64, error) {
	c.asked++
	logits := make([]float64, 10)
	logits[(ids[len(ids)-1]+1)%10] = 1
	return logits, nil
}

func TestGenerate_EndsAtTheEndOfTheTextOrWhenItIsTold(t *testing.T) {
	never := func() bool { return false }
	end := int64(7)
	given := []int64{3, 4}
	ids, err := generate(&counting{}, given, 100, sampling{}, &end, never)
	require.NoError(t, err)
	require.Equal(t, []int64{3, 4, 5, 6}, ids)
	d := &counting{}
	ids, err = generate(d, given, 100, sampling{}, nil, func() bool { return d.asked == 3 })
	require.NoError(t, err)
	require.Equal(t, []int64{3, 4, 5, 6, 7}, ids)
}
