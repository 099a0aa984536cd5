package tensor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a Retain meets that has seen its handle unreleased, when the last Release has run meanwhile.
func TestAcquire_TakesNothingUpAgain(t *testing.T) {
	var s storage
	require.False(t, s.acquire())
	require.Zero(t, s.refs.Load())
	s.refs.Store(1)
	require.True(t, s.acquire())
	require.EqualValues(t, 2, s.refs.Load())
	s.refs.Store(-1)
	require.False(t, s.acquire())
}
