package tensor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/host"
)

// The answer is that of Random123's kat_vectors: philox4x32, ten rounds.
func TestPhilox_GivesTheKnownAnswer(t *testing.T) {
	require.Equal(t, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}, philox(0, 0))
}

func TestPhilox_IsTheGeneratorOfTheKernels(t *testing.T) {
	dev, err := device.Open("host")
	require.NoError(t, err)
	e, err := On(dev)
	require.NoError(t, err)
	state := GeneratorState{Seed: 0xa4093822299f31d0, Offset: 0x85a308d3243f6a88}
	gen := NewGenerator(0)
	gen.SetState(state)
	x, err := Rand(e, gen, Float32, 10)
	require.NoError(t, err)
	defer x.Release()
	got, err := ToSlice[float32](x)
	require.NoError(t, err)
	for i, u := range got {
		word := philox(state.Seed, state.Offset+uint64(i/4))[i%4]
		require.Equal(t, float32(word>>8)*0x1p-24, u, "element %d", i)
	}
}

func TestGenerator_PrintsWhereItIs(t *testing.T) {
	gen := NewGenerator(7)
	_, err := RandPerm(gen, 10)
	require.NoError(t, err)
	require.Equal(t, "generator: seed 7, offset 5", gen.String())
	require.Equal(t, "generator: seed 0, offset 0", new(Generator).String())
	require.Equal(t, "generator (nil)", (*Generator)(nil).String())
}
