package memlog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memlog"
)

const mib = device.MiB

func Example() {
	dev := sim.New(100 * mib)
	defer dev.Close()
	alloc, _ := memory.New(dev, memory.Config{})
	defer alloc.Close()
	plain := func(_ []string, a slog.Attr) slog.Attr { // what differs from run to run
		if a.Key == slog.TimeKey || a.Key == "device" {
			return slog.Attr{}
		}
		return a
	}
	if err := memlog.To(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: plain})), alloc); err != nil {
		fmt.Println(err)
	}
	s := dev.DefaultStream()
	small, _ := alloc.Alloc(60*mib, s)
	_ = alloc.Free(small)
	large, _ := alloc.Alloc(80*mib, s) // the 60 MiB in the cache are too small, and in the way
	_ = alloc.Free(large)
	_ = alloc.EmptyCache()
	// Output:
	// level=WARN msg="device memory: cache emptied" cause=retry released=62914560 driver_calls=1 stream=0 requested=83886080 served=true
	// level=INFO msg="device memory: returned to driver" cause=EmptyCache released=83886080 driver_calls=1
}

func events(t *testing.T, text []byte) (list []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var e map[string]any
		require.NoError(t, json.Unmarshal(line, &e))
		list = append(list, e)
	}
	return list
}

func TestTo_LogsWhyARequestFailed(t *testing.T) {
	dev := sim.New(100 * mib)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	var w bytes.Buffer
	require.NoError(t, memlog.To(slog.New(slog.NewJSONHandler(&w, nil)), alloc))
	cached, err := alloc.Alloc(30*mib, dev.DefaultStream())
	require.NoError(t, err)
	require.NoError(t, alloc.Free(cached))
	_, err = alloc.Alloc(200*mib, dev.DefaultStream())
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	alloc.SetMemoryLimit(50 * mib)
	_, err = alloc.Alloc(60*mib, dev.DefaultStream())
	require.ErrorIs(t, err, memory.ErrLimit)

	list := events(t, w.Bytes())
	require.Len(t, list, 3, "the second had nothing to give back: %s", &w)
	require.Equal(t, memlog.Retry, list[0]["msg"])
	require.Equal(t, false, list[0]["served"])
	full, limited := list[1], list[2]
	require.Equal(t, memlog.OutOfMemory, full["msg"])
	require.Equal(t, "ERROR", full["level"])
	require.Equal(t, dev.ID().String(), full["device"])
	require.EqualValues(t, 200*mib, full["requested"])
	require.EqualValues(t, 100*mib, full["device_total"])
	require.NotContains(t, full, "limit")
	require.EqualValues(t, 50*mib, limited["limit"])
	require.NoError(t, alloc.Close())
}

func TestTo_SaysNothingInTheSteadyState(t *testing.T) {
	dev := sim.New(100 * mib)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	var w bytes.Buffer
	require.NoError(t, memlog.To(slog.New(slog.NewJSONHandler(&w, &slog.HandlerOptions{Level: slog.LevelDebug})), alloc))
	for range 10 {
		b, err := alloc.Alloc(3*mib, dev.DefaultStream())
		require.NoError(t, err)
		require.NoError(t, alloc.Free(b))
	}
	require.Empty(t, w.String())
	require.NoError(t, alloc.Close())
}

// A handler may ask the allocator: no lock is held.
func TestTo_AHandlerMayCallTheAllocator(t *testing.T) {
	dev := sim.New(100 * mib)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	var seen []int64
	look := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey {
			seen = append(seen, alloc.Stats().NumOOMs)
		}
		return a
	}
	require.NoError(t, memlog.To(slog.New(slog.NewJSONHandler(new(bytes.Buffer), &slog.HandlerOptions{ReplaceAttr: look})), alloc))
	_, err = alloc.Alloc(200*mib, dev.DefaultStream())
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.Equal(t, []int64{1}, seen)
}

func TestTo_RefusesWhatHasNoEvents(t *testing.T) {
	dev := sim.New(100 * mib)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	l := slog.New(slog.DiscardHandler)
	for want, err := range map[string]error{
		"the logger is nil":                 memlog.To(nil, alloc),
		"the logger is nil or a zero value": memlog.To(new(slog.Logger), alloc),
		"the allocator is nil":              memlog.To(l, nil),
		"the allocator is a nil":            memlog.To(l, (*memory.Caching)(nil)),
		"*memory.Direct, which has no":      memlog.To(l, memory.NewDirect(dev)),
		"is a *memory.Pool, which has no ":  memlog.To(l, alloc.NewPool()),
	} {
		var argument *memory.ArgumentError
		require.ErrorAs(t, err, &argument, want)
		require.ErrorContains(t, err, want)
	}
}
