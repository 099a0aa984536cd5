package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A program that trains for long, with all that goes wrong on the way, holds at its end what it held at its beginning.
//
// Plain tests do the same events each time; CISTERN_SOAK=10m others, for longer (.ci/run soak). The seed of a failure is in its message, and
// CISTERN_SOAK_SEED runs the same events again.
func TestSoak(t *testing.T) {
	span, seed := settings(t)
	r := newRun(t, seed)
	for _, e := range events { // each at least once before anything is measured, since much is made at its first use
		for range 3 {
			r.do(e)
		}
	}
	r.until(span/4, usualEvents/4)
	before := r.sample(0)
	count := r.until(span*3/4, usualEvents)
	after := r.sample(before.goroutines)
	report := after.grown(before)
	require.Empty(t, report, "after %d events with CISTERN_SOAK_SEED=%d these have grown", count, seed)
	t.Logf("%d events: %+v, then %+v", count, before, after)
}

func settings(t *testing.T) (span time.Duration, seed uint64) {
	t.Helper()
	seed = 1
	var err error
	if text := os.Getenv("CISTERN_SOAK"); text != "" {
		seed = rand.Uint64()
		span, err = time.ParseDuration(text)
		require.NoError(t, err, "CISTERN_SOAK")
	}
	if text := os.Getenv("CISTERN_SOAK_SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "CISTERN_SOAK_SEED")
	}
	return span, seed
}

// usualEvents are done, always the same ones, where no time is given.
const usualEvents = 800

// until does random events for a time, or so many if there is none, and returns how many.
func (r *run) until(span time.Duration, usual int) (count int) {
	for end := time.Now().Add(span); span == 0 && count < usual || time.Now().Before(end); count++ {
		r.do(events[r.rng.IntN(len(events))])
	}
	return count
}

func (r *run) do(e event) {
	r.t.Helper()
	if err := e.run(r); err != nil {
		require.NoError(r.t, err, "%s with CISTERN_SOAK_SEED=%d", e.name, r.seed)
	}
	r.opt.ZeroGrad()
}

// sample is what is held after a step: what is loaded anew has less until then.
func (r *run) sample(running int64) sample {
	r.t.Helper()
	r.do(events[0])
	s, err := take(r.alloc, running)
	require.NoError(r.t, err)
	return s
}

// Each kind of growth is noticed.
func TestSample_NoticesWhatGrows(t *testing.T) {
	r := newRun(t, 1)
	for _, e := range events {
		r.do(e)
	}
	stop := make(chan struct{})
	for _, c := range []struct {
		what string
		leak func() (undo func())
	}{
		{"goroutines", func() func() {
			done := make(chan struct{})
			go func() { <-stop; close(done) }()
			return func() { close(stop); <-done }
		}},
		{"allocated bytes of the device", func() func() { return r.ones(100).Release }},
		{"reserved bytes of the device", func() func() { return r.ones(30 << 18).Release }},
		{"blocks that the safety net freed", func() func() {
			b, err := r.alloc.Alloc(512, r.dev.DefaultStream())
			require.NoError(t, err)
			r.alloc.FreeLater(b)
			r.ones(1).Release()
			return func() {}
		}},
		{"open files", func() func() {
			f, err := os.Open(os.DevNull)
			require.NoError(t, err)
			if openFiles() == 0 {
				t.Log("the system does not say which files are open")
			}
			return func() { require.NoError(t, f.Close()) }
		}},
		{"bytes of the Go heap", func() func() {
			kept := make([]byte, 3<<20)
			return func() { fmt.Fprint(discard{}, kept[0]) }
		}},
		{"resident bytes", func() func() {
			kept := make([]byte, 64<<20)
			for i := range kept {
				kept[i] = 1
			}
			return func() { fmt.Fprint(discard{}, kept[0]) }
		}},
	} {
		before := r.sample(0)
		undo := c.leak()
		after := r.sample(before.goroutines)
		if after.files != 0 || c.what != "open files" && c.what != "resident bytes" {
			require.Contains(t, after.grown(before), c.what)
		}
		undo()
		require.NotContains(t, r.sample(before.goroutines).grown(after), c.what)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
