package apifuzz

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rounds is how often each target is called by go test.
const rounds = 3

// TestCalls calls everything. Settings in the environment:
//
//	APIFUZZ=10m              goes on for that long, with a seed of the clock
//	APIFUZZ_SEED=n           with this seed
//	APIFUZZ_CALL=name:seed   makes one call again
//	APIFUZZ_ONLY=text        only targets whose names have it
func TestCalls(t *testing.T) {
	t.Chdir(t.TempDir()) // some calls write files
	defer watch()()
	if c := os.Getenv("APIFUZZ_CALL"); c != "" {
		i := strings.LastIndexByte(c, ':')
		seed, err := strconv.ParseUint(c[i+1:], 10, 64)
		require.NoError(t, err)
		again(t, c[:i], seed)
		return
	}
	seed, end := uint64(1), time.Time{}
	if d, err := time.ParseDuration(os.Getenv("APIFUZZ")); err == nil {
		seed, end = rand.Uint64N(1<<40), time.Now().Add(d)
	}
	if s, err := strconv.ParseUint(os.Getenv("APIFUZZ_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("APIFUZZ_SEED=%d", seed)
	all := chosen()
	found, calls := map[string]bool{}, 0
	for round := uint64(0); round < rounds || time.Now().Before(end); round++ {
		for _, c := range all {
			calls++
			if f := probe(c, seed+round); f != nil && !found[f.kind()] {
				found[f.kind()] = true
				t.Error("\n" + f.String())
			}
			if !end.IsZero() && time.Now().After(end) {
				break
			}
		}
	}
	t.Logf("%d calls of %d functions and methods", calls, len(all))
}

// kind is where a panic came from, and otherwise the target and how the failure begins: one of a kind is enough.
func (f *failure) kind() string {
	line, frames, _ := strings.Cut(f.what, "\n")
	if _, place, ok := strings.Cut(frames, "\n\t"); ok {
		place, _, _ = strings.Cut(place, "\n")
		return place
	}
	return f.target + line[:min(len(line), 30)]
}

func chosen() (all []target) {
	for _, c := range targets() {
		if excluded[c.name] == "" && strings.Contains(c.name, os.Getenv("APIFUZZ_ONLY")) {
			all = append(all, c)
		}
	}
	return all
}

func again(t *testing.T, name string, seed uint64) {
	for _, c := range targets() {
		if c.name == name {
			if f := probe(c, seed); f != nil {
				t.Error("\n" + f.String())
			}
			return
		}
	}
	t.Fatalf("no function or method %s", name)
}

// watch ends the process when a call takes too long: nothing else can end it. It counts the seconds that it saw itself, which are fewer than those that passed
// where the machine stood still or was busy with others.
func watch() (stop func()) {
	done := make(chan struct{})
	go func() {
		var last *progress
		for seen := time.Duration(0); ; seen += time.Second {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			if now := running.Load(); now != last {
				last, seen = now, 0
			} else if now != nil && seen > maxTime {
				fmt.Fprintf(os.Stderr, "does not return:\n%s\n", now.text)
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
				os.Exit(2)
			}
		}
	}()
	return func() { close(done) }
}

func TestExcluded_ExistsStill(t *testing.T) {
	names := map[string]bool{}
	for _, c := range targets() {
		names[c.name] = true
	}
	for name := range excluded {
		require.True(t, names[name], "%s is excluded, but there is no such function or method", name)
	}
}
