package cuda_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

func TestReport_EndsEveryWaitWithTheErrorOfItsCheck(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, e, p := r.Stream(d), r.Event(d), r.Malloc(d, 64)
	var seen []byte
	var found error
	address, err := d.Report(40, func(memory []byte) error {
		seen = memory
		return found
	})
	require.NoError(t, err)
	require.NotZero(t, address)
	waits := map[string]func() error{
		"stream": func() error { return s.Synchronize(context.Background()) },
		"event":  func() error { return errors.Join(s.Record(e), e.Synchronize(context.Background())) },
		"device": func() error { return d.Synchronize(context.Background()) },
		"copy":   func() error { return s.CopyToHost(make([]byte, 8), p) },
	}
	require.NoError(t, s.Fill(p, 1, 64))
	for name, wait := range waits {
		seen, found = nil, nil
		require.NoError(t, wait(), name)
		require.Equal(t, make([]byte, 40), seen, name)
		found = device.ErrInvalidValue
		require.ErrorIs(t, wait(), found, name)
	}
	_, err = d.Report(0, nil)
	require.NoError(t, err)
	for name, wait := range waits {
		require.NoError(t, wait(), name)
	}
}

func TestReport_AgainEndsTheEarlierOne(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	first, second := 0, 0
	_, err := d.Report(8, func([]byte) error { first++; return nil })
	require.NoError(t, err)
	_, err = d.Report(8, func([]byte) error { second++; return nil })
	require.NoError(t, err)
	require.NoError(t, d.Synchronize(context.Background()))
	require.Equal(t, []int{0, 1}, []int{first, second})
	// Closing the device gives the memory back; the rig finds it if not.
}
