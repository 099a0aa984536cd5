package tensor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The answers are those of Random123's kat_vectors for philox4x32 with ten rounds, restricted to counters of 64 bits.
func TestPhilox_GivesTheKnownAnswers(t *testing.T) {
	require.Equal(t, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}, philox(0, 0))
}
