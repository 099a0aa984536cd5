package text_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/internal/text"
	"github.com/cistern-ml/cistern/tensor"
)

func TestLoad_FindsTheTextThatComesWithGo(t *testing.T) {
	c, err := text.Load("")
	require.NoError(t, err)
	require.Greater(t, len(c.Train), 9*len(c.Val)-10)
	require.True(t, strings.Contains(c.Decode(c.Train), "My Design in this Book is not to explain the Properties of Light by"))
}

func TestLoad_SaysWhatIsWrong(t *testing.T) {
	_, err := text.Load(filepath.Join(t.TempDir(), "none.txt"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = text.New("short")
	require.ErrorContains(t, err, "5 characters")
}

func TestDecode_IsTheInverseOfEncode(t *testing.T) {
	c, err := text.New("a naïve “book” of light, of light")
	require.NoError(t, err)
	require.Equal(t, "“naïve”", c.Decode(c.Encode("“naïve”")))
	require.Equal(t, "ef", c.Decode(c.Encode("xefx")))
	require.Equal(t, "\uFFFD", c.Decode([]int64{1000}))
}

func TestRandom_IsAFunctionOfSeedAndStep(t *testing.T) {
	dev, err := device.Open("host")
	require.NoError(t, err)
	defer dev.Close()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	ids := make([]int64, 100)
	for i := range ids {
		ids[i] = int64(i)
	}
	batch := func(seed, step uint64) []int64 {
		x, y, err := text.Random(e, ids, seed, step, 4, 10)
		require.NoError(t, err)
		defer x.Release()
		defer y.Release()
		in, err := tensor.ToSlice[int64](x)
		require.NoError(t, err)
		out, err := tensor.ToSlice[int64](y)
		require.NoError(t, err)
		for i := range in {
			require.Equal(t, in[i]+1, out[i], "targets are the characters one later")
		}
		return in
	}
	require.Equal(t, batch(1, 2), batch(1, 2))
	require.NotEqual(t, batch(1, 2), batch(1, 3))
	require.NotEqual(t, batch(1, 2), batch(2, 2))
}
