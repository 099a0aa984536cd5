package memory_test

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/pinned"
)

func TestNil_ArgumentsAreRefused(t *testing.T) {
	dev := host.New()
	a, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	direct := memory.NewDirect(dev)
	p, err := pinned.New(dev, memory.Config{})
	require.NoError(t, err)
	s := dev.DefaultStream()
	block, err := a.Alloc(512, s)
	require.NoError(t, err)
	own, err := direct.Alloc(512, s)
	require.NoError(t, err)
	held, err := p.Alloc(512)
	require.NoError(t, err)
	pool := a.NewPool(nil) // a nil option changes nothing

	only := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"New":                 only(memory.New(nil, memory.Config{})),
		"NewAsync":            only(memory.NewAsync(nil, memory.Config{})),
		"pinned.New":          only(pinned.New(nil, memory.Config{})),
		"For":                 only(memory.For(nil)),
		"pinned.For":          only(pinned.For(nil)),
		"NewDirect":           only(memory.NewDirect(nil).Alloc(1, s)),
		"Alloc":               only(a.Alloc(1, nil)),
		"Direct.Alloc":        only(direct.Alloc(1, nil)),
		"Pool.Alloc":          only(pool.Alloc(1, nil)),
		"AllocAt":             only(a.AllocAt(1, nil, 0)),
		"RecordStream":        a.RecordStream(block, nil),
		"Direct.RecordStream": direct.RecordStream(own, nil),
		"pinned.RecordStream": p.RecordStream(held, nil),
		"Reserve":             a.Reserve(1, nil),
		"BeginRoute":          a.BeginRoute(nil, func(device.Stream) bool { return true }),
		"BeginRoute, filter":  a.BeginRoute(pool, nil),
		"EndRoute":            a.EndRoute(nil),
		"WriteSnapshot":       memory.WriteSnapshot(io.Discard, nil, memory.FormatJSON),
		"WriteJSON":           a.Snapshot().WriteJSON(nil),
		"WritePickle":         a.Snapshot().WritePickle(nil),
		"WriteHTML":           a.Snapshot().WriteHTML(nil),
		"WriteDrawing":        a.Snapshot().WriteDrawing(nil, 0),
		"WriteDrawing of -1":  a.Snapshot().WriteDrawing(io.Discard, -1),
		"WriteJSON, file":     a.Snapshot().WriteJSON((*os.File)(nil)),
		"WritePickle, buffer": a.Snapshot().WritePickle((*bytes.Buffer)(nil)),
		"Write":               a.Snapshot().Write(new(bytes.Buffer), ".txt"),
	} {
		var bad *memory.ArgumentError
		require.ErrorAs(t, err, &bad, name)
	}
	p.AddTo(nil)
	require.NoError(t, memory.Drop(nil))

	require.NoError(t, pool.Release())
	require.NoError(t, a.Free(block))
	require.NoError(t, direct.Free(own))
	require.NoError(t, p.Free(held))
	require.NoError(t, p.Close())
	require.NoError(t, direct.Close())
	require.NoError(t, a.Close())
	require.NoError(t, dev.Close())
}

func TestConfig_RefusesSegmentsThatNoDeviceHas(t *testing.T) {
	var bad *memory.ConfigError
	require.ErrorAs(t, memory.Config{LargeSegmentBytes: 1<<64 - 1}.Validate(), &bad)
}
