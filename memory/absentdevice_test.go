package memory_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memprof"
	"github.com/cistern-ml/cistern/memory/pinned"
)

func TestNoDevice_IsAnArgumentError(t *testing.T) {
	for _, d := range []device.Device{
		nil, (*host.Device)(nil), new(host.Device), (*sim.Device)(nil), new(sim.Device), (*cuda.Device)(nil), new(cuda.Device),
	} {
		calls := map[string]error{
			"WriteSnapshot": memory.WriteSnapshot(new(bytes.Buffer), d, memory.FormatJSON),
			"DumpSnapshot":  memory.DumpSnapshot(d, "never.json"),
			"WriteProfile":  memprof.WriteProfile(new(bytes.Buffer), d),
		}
		_, calls["New"] = memory.New(d, memory.Config{})
		_, calls["NewAsync"] = memory.NewAsync(d, memory.Config{})
		_, calls["For"] = memory.For(d)
		_, calls["pinned.For"] = pinned.For(d)
		driver, _ := d.(pinned.Driver)
		_, calls["pinned.New"] = pinned.New(driver, memory.Config{})
		_, calls["Alloc"] = memory.NewDirect(d).Alloc(8, host.Default().DefaultStream())
		for call, err := range calls {
			var typed *memory.ArgumentError
			require.ErrorAs(t, err, &typed, "%T: %s", d, call)
			require.Equal(t, call, typed.Call)
			require.Equal(t, "the device is nil or a zero value", typed.Detail, "%T: %s", d, call)
		}
		require.Empty(t, memory.Summary(d))
		require.NoError(t, memory.Drop(d))
	}
	require.Empty(t, memory.Allocators())
}
