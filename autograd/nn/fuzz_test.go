package nn_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// unsummed makes a file of Save one of another program, whose content a fuzzer can change.
func unsummed(file []byte) []byte {
	return bytes.Replace(file, []byte("cistern."), []byte("another."), 2)
}

// headed is a file with a header.
func headed(header string, data ...byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

// FuzzLoad loads anything. What is refused changes nothing, takes no more memory than it is long, and keeps none; what is loaded is
// saved and loads again to the same.
func FuzzLoad(f *testing.F) {
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(f, err)
	model := nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
	require.NoError(f, model.To(dev, nn.Seed(1), nn.WithAllocator(alloc)))
	for _, p := range model.Parameters()[:1] { // types are converted
		require.NoError(f, p.To(p.Tensor().Exec(), tensor.BFloat16))
	}
	good := contents(f, model)
	f.Add(good)
	f.Add(unsummed(good))
	f.Add(unsummed(good)[:len(good)-3])
	f.Add(bytes.Replace(unsummed(good), []byte(`"BF16"`), []byte(`"F16"  `)[:6], 1))
	f.Add(headed(`{"a":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}}`))
	f.Add(headed(`{"a":{"dtype":"BOOL","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`))
	f.Add(headed(`{"__metadata__":{"cistern.checksum":"crc32c","cistern.crc32c":"00000000"}}`))
	f.Add(headed(`{"__metadata__":{"cistern.crc32c":"\u0030"}}`))
	f.Add(binary.LittleEndian.AppendUint64(nil, 100<<20))
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, nn.Load(bytes.NewReader(good), model))
		held := alloc.Stats().AllocatedBytes.All.Current
		var outcomes [2]error
		for i, name := range []string{"seeker", "stream"} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := nn.Load(readers[name](data), model)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+200*len(data)), "%d bytes of input", len(data))
			outcomes[i] = err
			if err != nil {
				requireTyped(t, err)
				require.Equal(t, good, contents(t, model))
				require.Equal(t, held, alloc.Stats().AllocatedBytes.All.Current)
				continue
			}
			saved := contents(t, model)
			require.NoError(t, nn.Load(bytes.NewReader(good), model))
			require.NoError(t, nn.Load(bytes.NewReader(saved), model))
			require.Equal(t, saved, contents(t, model))
			require.NoError(t, nn.Load(bytes.NewReader(good), model))
		}
		require.Equal(t, outcomes[0] == nil, outcomes[1] == nil, "%v\n%v", outcomes[0], outcomes[1])
	})
}

func requireTyped(t *testing.T, err error) {
	t.Helper()
	var format *nn.FormatError
	var mismatch *nn.MismatchError
	require.True(t, errors.As(err, &format) || errors.As(err, &mismatch), "%T %v", err, err)
}
