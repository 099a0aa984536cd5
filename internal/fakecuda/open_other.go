//go:build !(linux && amd64)

package fakecuda

import "testing"

// Open skips the test: the library is for linux/amd64. Build has done so before.
func Open(t testing.TB, path string) *Library {
	t.Helper()
	t.Skipf("fakecuda: SKIPPED: the emulated CUDA driver is for linux/amd64 (%s)", path)
	return nil
}

// WatchBarriers skips the test, as Open does.
func WatchBarriers(t testing.TB, kernels string) *Barriers {
	t.Helper()
	t.Skipf("fakecuda: SKIPPED: emulated kernels are for linux/amd64 (%s)", kernels)
	return nil
}
