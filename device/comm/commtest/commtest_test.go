package commtest_test

import (
	"errors"
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/stretchr/testify/require"
)

func TestCheck_OfNoGroupIsRefused(t *testing.T) {
	require.EqualError(t, commtest.Check(nil), "commtest: Check: the Comm is nil")
}

func TestHooked_LooksAtEachCollective(t *testing.T) {
	group, err := comm.Loopback(host.New())
	require.NoError(t, err)
	var seen []string
	refused := errors.New("refused")
	h := commtest.Hooked{Comm: group[0], Before: func(_ device.Stream, c comm.Call) error {
		seen = append(seen, c.Operation)
		if len(seen) > 5 {
			return refused
		}
		return nil
	}}
	s, b := h.Device().DefaultStream(), comm.Buffer{Type: dtype.Float32}
	calls := []func() error{
		func() error { return h.Broadcast(s, b, 0) },
		func() error { return h.AllReduce(s, b, b, comm.Sum) },
		func() error { return h.ReduceScatter(s, b, b, comm.Sum) },
		func() error { return h.AllGather(s, b, b) },
		func() error { return h.AllToAll(s, b, b) },
	}
	for _, call := range calls {
		require.NoError(t, call())
	}
	require.Equal(t, []string{"Broadcast", "AllReduce", "ReduceScatter", "AllGather", "AllToAll"}, seen)
	require.EqualValues(t, 5, h.Stats().Total().Calls)
	for _, call := range calls {
		require.ErrorIs(t, call(), refused)
	}
	require.EqualValues(t, 5, h.Stats().Total().Calls)
}
