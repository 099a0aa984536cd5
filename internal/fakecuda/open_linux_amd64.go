package fakecuda

import (
	"testing"

	"github.com/ebitengine/purego"
)

// Open loads the library that Build made, or finds it loaded, and resets it: now, and when the test ends.
func Open(t testing.TB, path string) *Library {
	t.Helper()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
	l := &Library{t: t, path: path}
	for name, f := range map[string]any{
		"fakecuda_set":          &l.set,
		"fakecuda_text":         &l.text,
		"fakecuda_count":        &l.count,
		"fakecuda_hold":         &l.hold,
		"fakecuda_hold_stream":  &l.holdStream,
		"fakecuda_clear_faults": &l.clearFaults,
		"fakecuda_reset":        &l.reset,
		"fakecuda_skeleton":     &l.skeleton,
		"fakecuda_unknown":      &l.unknown,
	} {
		purego.RegisterLibFunc(f, handle, name)
	}
	l.Reset()
	t.Cleanup(l.Reset)
	return l
}

// WatchBarriers begins to note the barriers that the kernels of a library come to, until the test ends. Watched kernels are
// slower.
func WatchBarriers(t testing.TB, kernels string) *Barriers {
	t.Helper()
	handle, err := purego.Dlopen(kernels, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
	b := &Barriers{t: t}
	purego.RegisterLibFunc(&b.watch, handle, "gk_watch")
	purego.RegisterLibFunc(&b.reached, handle, "gk_reached")
	purego.RegisterLibFunc(&b.remove, handle, "gk_remove")
	b.watch(1)
	t.Cleanup(func() { b.watch(0) })
	return b
}
