package stepplan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// A plan that serves nothing says how much it does not serve: the first step of a program is one of those that have no placement.
func TestFigures_TellWhatHadNoPlacement(t *testing.T) {
	dev := sim.New(device.GiB)
	a, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	p, err := a.NewPlan()
	require.NoError(t, err)
	require.NoError(t, p.Step())
	for range 3 {
		b, err := a.Alloc(device.MiB, dev.DefaultStream())
		require.NoError(t, err)
		require.NoError(t, a.Free(b))
	}
	f := Of(p)
	require.Equal(t, "0 requests served in 1 steps, 0 deviations, 3 without a placement, arena 0B, bound 0B", f.String())
	text, err := json.Marshal(f)
	require.NoError(t, err)
	require.JSONEq(t, `{"steps":1,"served":0,"deviations":0,"unknown":3,"aside":0,"arena_bytes":0,"bound_bytes":0}`, string(text))
	f.Aside = 7
	require.Contains(t, f.String(), "3 without a placement, stood aside for 7 steps, arena")
	require.NoError(t, a.Close())
	require.Nil(t, Of(nil))
}
