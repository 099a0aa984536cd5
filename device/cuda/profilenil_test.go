package cuda_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
)

func TestProfile_NilAndZeroWriteNothing(t *testing.T) {
	for _, p := range []*cuda.Profile{nil, {}} {
		p.Stop()
		require.Empty(t, p.Totals())
		var out bytes.Buffer
		for _, err := range []error{p.WriteTotals(&out), p.WriteTrace(&out), p.WriteTrace(nil)} {
			require.ErrorIs(t, err, device.ErrInvalidValue)
			require.ErrorContains(t, err, "the profile is nil or a zero value")
		}
		require.Zero(t, out.Len())
	}
}
