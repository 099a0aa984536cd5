package oneline_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/oneline"
)

func TestCount(t *testing.T) {
	require.Equal(t, "0 tensors", oneline.Count(0, "tensor"))
	require.Equal(t, "1 tensor", oneline.Count(uint64(1), "tensor"))
	require.Equal(t, "2 tensors", oneline.Count(2, "tensor"))
}

func TestError_IsOneLineAndNotLong(t *testing.T) {
	require.Equal(t, "a", oneline.Error(errors.New("a\nb")))
	require.Less(t, len(oneline.Error(errors.New(strings.Repeat("a", 1<<20)))), 2000)
}
