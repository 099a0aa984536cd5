package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/internal/inspect"
)

// Each operation of each step makes one of each: more of them are more for the garbage collector to do.
func TestVariablesAndNodes_AreNoLarger(t *testing.T) {
	variable, node, saved := inspect.Sizes()
	require.LessOrEqual(t, variable, uintptr(160))
	require.LessOrEqual(t, node, uintptr(208))
	require.LessOrEqual(t, saved, uintptr(40))
}
