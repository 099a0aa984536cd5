//go:build linux && amd64

package fakecuda

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recorder is a test that notes how it ends.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Skip(args ...any)                 { r.skipped = fmt.Sprint(args...); runtime.Goexit() }
func (r *recorder) Skipf(format string, args ...any) { r.Skip(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// ending runs f as a test of its own and returns how that ended.
func ending(t *testing.T, f func(t testing.TB)) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func TestBuild_WithoutACompilerSkipsAndSaysWhy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CXX", "")
	t.Setenv(required, "")
	r := ending(t, func(t testing.TB) { Build(t) })
	require.Contains(t, r.skipped, "no C++ compiler")
	t.Setenv(required, "1")
	r = ending(t, func(t testing.TB) { Build(t) })
	require.Contains(t, r.failed, "no C++ compiler")
}

func TestBuild_IsDoneOnce(t *testing.T) {
	first := Build(t)
	info, err := os.Stat(first)
	require.NoError(t, err)
	require.Equal(t, "libcuda.so.1", filepath.Base(first))
	require.Equal(t, first, Build(t))
	again, err := os.Stat(first)
	require.NoError(t, err)
	require.Equal(t, info.ModTime(), again.ModTime())
}

func TestBuildKernels_ReportsWhatTheCompilerSays(t *testing.T) {
	Build(t) // skips where there is no compiler
	broken := filepath.Join(t.TempDir(), "broken.cu")
	for text, want := range map[string]string{
		"#include \"gk.h\"\nGK_KERNEL(32) void k(int* p) { p[0] = nothing; }\n": "'nothing'",
		"#include \"gk.h\"\nint x;\n":                                           "no kernels (GK_KERNEL) found",
		"#include \"gone.h\"\n":                                                 "gone.h",
	} {
		require.NoError(t, os.WriteFile(broken, []byte(text), 0o644))
		r := ending(t, func(t testing.TB) { BuildKernels(t, emulator, []string{broken}) })
		require.Contains(t, r.failed, want[1:len(want)-1]) // compilers quote differently
		require.Contains(t, r.failed, "broken.cu")
	}
}

func TestDelays_SlowCallsAndWorkDown(t *testing.T) {
	c := start(t)
	s, a, b := c.stream(), c.event(), c.event()
	c.lib.DelayWork(2 * time.Millisecond)
	c.ok(c.EventRecord(a, s))
	c.ok(c.EventRecord(b, s))
	c.ok(c.EventSynchronize(b))
	var ms float32
	c.ok(c.EventElapsed(&ms, a, b))
	require.GreaterOrEqual(t, ms, float32(2))
	c.lib.DelayCalls(2 * time.Millisecond)
	begin := time.Now()
	c.ok(c.StreamQuery(s))
	require.GreaterOrEqual(t, time.Since(begin), 2*time.Millisecond)
}
