package autograd

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each operation of each step makes one of each: more of them are more for the garbage collector to do.
func TestVariablesAndNodes_AreNoLarger(t *testing.T) {
	require.LessOrEqual(t, reflect.TypeFor[Variable]().Size(), uintptr(160))
	require.LessOrEqual(t, reflect.TypeFor[node]().Size(), uintptr(208))
	require.LessOrEqual(t, reflect.TypeFor[saved]().Size(), uintptr(40))
}
