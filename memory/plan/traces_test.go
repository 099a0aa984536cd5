package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/trace"
)

// limits are for the sizes of whole recorded programs, as ratios to the bound.
var limits = map[string]float64{
	"mlp_adam": 1.001, "gpt_fixed": 1.001, "gpt_ckpt": 1.001, "gpt_varlen": 1.001, "unet_var": 1.001, "resnet_sgd": 1.001,
	"gpt_prefetch": 1.003,
}

// lifetimes returns the buffers of a trace, with sizes rounded up to 512 bytes. What is never freed lives to the end.
func lifetimes(tr *trace.Trace) Problem {
	p := Problem{Buffers: make([]Buffer, tr.Allocs)}
	for at, e := range tr.Events {
		switch e.Kind {
		case trace.Alloc:
			p.Buffers[e.ID] = Buffer{Size: (e.Bytes + 511) &^ 511, From: at, To: len(tr.Events)}
		case trace.Free:
			p.Buffers[e.ID].To = at
		}
	}
	return p
}

func TestPlace_RecordedProgramsNeedLittleMoreThanTheBound(t *testing.T) {
	folders := []string{"../../benchmarks/internal/replay/testdata"}
	if more := os.Getenv("CISTERN_TRACES"); more != "" {
		folders = append(folders, more)
	}
	found := map[string]bool{}
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join(folder, "*.trace.gz"))
		require.NoError(t, err)
		for _, file := range names {
			name := strings.TrimSuffix(filepath.Base(file), ".trace.gz")
			limit, wanted := limits[name]
			if !wanted || found[name] {
				continue
			}
			found[name] = true
			tr, err := trace.Open(file)
			require.NoError(t, err)
			p := lifetimes(tr)
			got := report(t, name, p, Effort(2*len(p.Buffers)))
			require.LessOrEqual(t, float64(got.Size), limit*float64(got.Bound), name)
		}
	}
	for name := range limits {
		if !found[name] {
			t.Logf("SKIPPED: %s, whose trace is not here; CISTERN_TRACES may name a folder that has it", name)
		}
	}
	if len(found) == 0 {
		t.Skip("SKIPPED: there are no traces")
	}
}
