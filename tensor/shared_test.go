package tensor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An operation that finds one handle in two places must do what it does with a copy.
func TestOperations_OfOneHandleTwiceAreThoseOfCopies(t *testing.T) {
	b := onHost(t)
	together := map[string]bool{}
	for _, s := range samples {
		if strings.HasSuffix(s.op, "Step") {
			continue // they write to several of their operands
		}
		n := len(s.inputs(t, b.Exec))
		for i := range n {
			for j := i + 1; j < n; j++ {
				what := fmt.Sprintf("%s, input %d as input %d", s, i, j)
				shared, apart := s.inputs(t, b.Exec), s.inputs(t, b.Exec)
				shared[j], apart[j] = shared[i], must(t)(apart[i].Clone())
				got, err := s.run(shared)
				want, wantErr := s.run(apart)
				require.Equal(t, wantErr == nil, err == nil, "%s: %v, of a copy %v", what, err, wantErr)
				if err != nil {
					continue
				}
				together[s.op] = true
				require.Equal(t, want.DType(), got.DType(), what)
				require.Equal(t, want.Shape(), got.Shape(), what)
				requireClose(t, values(t, want), values(t, got), tolerance[want.DType()])
				want.Release()
				got.Release()
			}
		}
	}
	require.Greater(t, len(together), 60, "%v", together)
}
