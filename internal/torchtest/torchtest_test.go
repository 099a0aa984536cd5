package torchtest

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
)

var (
	count    = flag.Int("torchcount", 100, "how many random programs are run")
	duration = flag.Duration("torchtime", 0, "how long random programs are run, instead")
	seed     = flag.Uint64("torchseed", 11000, "the seed of the first program; 0 takes the time of day")
	only     = flag.Uint64("torchone", 0, "run the program of this seed alone, and print it")
	programs = flag.String("torchprograms", "", "run the programs of this file instead, in JSON, one a line")
	twice    = flag.Float64("torchtwice", 0.17, "the share of programs that are differentiated twice")
	all      = flag.Bool("torchall", false, "go on after a difference, and list them by kind, the first twelve of each shrunk")
)

func newRunner(t *testing.T) *Runner {
	dev := host.New()
	r, err := NewRunner(dev)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, dev.Close())
	})
	return r
}

func newTorch(t *testing.T) *Torch {
	torch, err := StartTorch()
	if err != nil {
		t.Skip("SKIPPED, random programs were not compared: ", err)
	}
	t.Cleanup(func() { require.NoError(t, torch.Close()) })
	return torch
}

func TestRandomPrograms_AgreeWithPyTorch(t *testing.T) {
	if testing.Short() {
		t.Skip("random programs take a while")
	}
	torch := newTorch(t)
	r := newRunner(t)
	defer func(before float64) { twiceShare = before }(twiceShare)
	twiceShare = *twice
	if *only != 0 {
		p := r.Generate(*only)
		d, err := Check(r, torch, p)
		require.NoError(t, err)
		if d != nil {
			p, d = Shrink(r, torch, p, d)
			t.Fail()
		}
		t.Logf("%s\n%s", d, Describe(p))
		return
	}
	if *programs != "" {
		comparePrograms(t, r, torch)
		return
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano() % 1e12)
	}
	t.Logf("PyTorch %s, seeds from %d", torch.Version, first)
	found := map[string][]uint64{}
	text := map[string]string{}
	ops := map[string]int{}
	n := 0
	more := func() bool { return n < *count }
	if *duration > 0 {
		end := time.Now().Add(*duration)
		more = func() bool { return time.Now().Before(end) }
	}
	for ; more(); n++ {
		p := r.Generate(first + uint64(n))
		for _, s := range p.Steps {
			ops[s.Op]++
		}
		d, err := Check(r, torch, p)
		require.NoError(t, err, "seed %d", p.Seed)
		if d == nil {
			continue
		}
		if !*all {
			small, d := Shrink(r, torch, p, d)
			t.Fatalf("seed %d: %s\n%s", p.Seed, d, Describe(small))
		}
		key := d.Kind + " " + d.Op
		found[key] = append(found[key], p.Seed)
		if len(found[key]) <= 12 {
			small, d := Shrink(r, torch, p, d)
			text[key] += fmt.Sprintf("\n    seed %d: %.700s\n%s", p.Seed, d, Describe(small))
		}
	}
	t.Logf("%d programs, %d of which crashed PyTorch", n, torch.Crashes)
	report := ""
	for _, key := range slices.Sorted(maps.Keys(found)) {
		report += fmt.Sprintf("%4d %s %s\n", len(found[key]), key, text[key])
	}
	t.Log(ops)
	for _, x := range Declared {
		t.Logf("declared %d times: %s of %s, %q: %s", x.used, x.Kind, x.Op, x.Detail, x.Reason)
	}
	if len(found) > 0 {
		t.Error(report)
	}
}

// comparePrograms is for those that showed a difference before.
func comparePrograms(t *testing.T, r *Runner, torch *Torch) {
	text, err := os.ReadFile(*programs)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		p := new(Program)
		require.NoError(t, json.Unmarshal([]byte(line), p), line)
		d, err := Check(r, torch, p)
		require.NoError(t, err)
		if d != nil {
			t.Errorf("seed %d: %s\n%s", p.Seed, d, Describe(p))
		}
	}
}
