package stat

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCounter_HasPyTorchsArithmetic(t *testing.T) {
	var c Counter
	c.Increase(5)
	c.Decrease(3)
	c.Increase(1)
	require.Equal(t, Counter{Current: 3, Peak: 5, Allocated: 6, Freed: 3}, c)
	c.ResetPeak()
	require.Equal(t, Counter{Current: 3, Peak: 3, Allocated: 6, Freed: 3}, c)
	c.ResetAccumulated()
	require.Equal(t, Counter{Current: 3, Peak: 3}, c)
}

func TestSorted_YieldsByKey(t *testing.T) {
	seq := Sorted([]Flat{{"b", 2}, {"a", 1}, {"c", 3}})
	require.Equal(t, map[string]int64{"a": 1, "b": 2, "c": 3}, maps.Collect(seq))
	var keys []string
	for k := range seq {
		if keys = append(keys, k); len(keys) == 2 {
			break
		}
	}
	require.True(t, slices.Equal([]string{"a", "b"}, keys))
}
