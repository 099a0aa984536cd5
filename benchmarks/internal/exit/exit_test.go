package exit

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCode_IsThatOfTheProgramUnlessOnlyTheEndFailed(t *testing.T) {
	require.Equal(t, 0, Code("p", 0))
	require.Equal(t, 2, Code("p", 2))
	for code, want := range map[int]int{0: 1, 1: 1, 2: 2} {
		var w bytes.Buffer
		require.Equal(t, want, after(errors.New("lost"), &w, "p", code))
		require.Equal(t, "p: lost\n", w.String())
	}
}
