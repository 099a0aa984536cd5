package nn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
)

// The time to build and to describe a deep model goes with its depth, and with the length of the text.
func TestSequential_OfGreatDepthIsBuiltAndDescribedAtOnce(t *testing.T) {
	deep := func(depth int) (build, describe time.Duration) {
		start := time.Now()
		m := nn.Sequential(nn.ReLU())
		for range depth - 1 {
			m = nn.Sequential(m)
		}
		build = time.Since(start)
		start = time.Now()
		text := m.String()
		describe = time.Since(start)
		require.Equal(t, 2*depth, strings.Count(text, "\n"))
		require.True(t, strings.HasPrefix(text, "Sequential(\n  (0): Sequential(\n    (0): Seq"))
		require.Empty(t, nn.NamedState(m))
		return build, describe
	}
	build, describe := deep(3000)
	require.Less(t, build, 10*time.Second, "it was minutes")
	require.Less(t, describe, 10*time.Second, "it was minutes")
}
