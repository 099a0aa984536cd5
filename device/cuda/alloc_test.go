//go:build !race

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

func TestHotPaths_MakeNoHeapAllocation(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, e, p := r.Stream(d), r.Event(d), r.Malloc(d, 4096)
	out, small := make([]byte, 64), make([]byte, 64)
	pinned, err := d.AllocPinned(64)
	require.NoError(t, err)
	require.NoError(t, s.CopyToDevice(p, small)) // takes the staging memory
	require.NoError(t, s.BeginCapture())
	require.NoError(t, s.Fill(p, 1, 10))
	graph := instantiate(t, s)
	for name, call := range map[string]func() error{
		"Record":            func() error { return s.Record(e) },
		"Wait":              func() error { return s.Wait(e) },
		"Event.Done":        func() error { _, err := e.Done(); return err },
		"Event.Synchronize": func() error { return e.Synchronize(background) },
		"Stream.Done":       func() error { _, err := s.Done(); return err },
		"Synchronize":       func() error { return s.Synchronize(background) },
		"Copy":              func() error { return s.Copy(p, p.Add(100), 100) },
		"Fill":              func() error { return s.Fill(p, 1, 100) },
		"CopyToDevice":      func() error { return s.CopyToDevice(p, small) },
		"CopyToHost":        func() error { return s.CopyToHost(out, p) },
		"CopyToDeviceAsync": func() error { return s.CopyToDeviceAsync(p, pinned) },
		"CopyToHostAsync":   func() error { return s.CopyToHostAsync(pinned, p) },
		"Graph.Launch":      func() error { return graph.Launch(s) },
		"MemInfo":           func() error { _, err := d.MemInfo(); return err },
	} {
		var failed error
		allocs := testing.AllocsPerRun(50, func() {
			if err := call(); err != nil {
				failed = err
			}
		})
		require.NoError(t, failed, name)
		require.Zero(t, allocs, name)
	}
}
