package device

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParams_LiesInWordsInTheOrderOfTheParameters(t *testing.T) {
	var p Params
	p.Ptr(0x1234).Int32(-1).Int64(-2).Float32(1.5).Words(7, 8, 9).Float64(2.5)
	words, starts := p.Layout()
	require.Equal(t, []uint64{
		0x1234, 0xFFFFFFFF, 1<<64 - 2, uint64(math.Float32bits(1.5)), 7, 8, 9, math.Float64bits(2.5),
	}, words)
	require.Equal(t, []uint16{0, 1, 2, 3, 4, 7}, starts)
	require.False(t, p.Overflow())
	p.Reset()
	words, starts = p.Layout()
	require.Empty(t, words)
	require.Empty(t, starts)
}

func TestParams_SaysWhenThereAreTooMany(t *testing.T) {
	var p Params
	for range MaxParams {
		p.Int32(1)
	}
	require.False(t, p.Overflow())
	require.True(t, p.Int32(1).Overflow())
	require.False(t, p.Reset().Words(make([]uint64, MaxParamWords)...).Overflow())
	require.True(t, p.Int32(1).Overflow())
}

func TestParams_NilIsEmpty(t *testing.T) {
	var none *Params
	require.False(t, none.Overflow())
	words, starts := none.Layout()
	require.Empty(t, words)
	require.Empty(t, starts)
	words, starts = none.Reset().Int64(7).Layout()
	require.Equal(t, []uint64{7}, words)
	require.Equal(t, []uint16{0}, starts)
	require.NotNil(t, none.Ptr(1))
}
