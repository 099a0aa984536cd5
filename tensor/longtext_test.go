package tensor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestEinsum_RepeatsTheBeginningOfALongEquation(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 1<<20), strings.Repeat(",", 1<<20)} {
		_, err := tensor.Einsum(text)
		require.Error(t, err)
		require.Less(t, len(err.Error()), 500)
	}
}
