package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/fit"
	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
	"github.com/cistern-ml/cistern/memory"
)

// figures runs the program and reads its JSON.
func figures(t *testing.T, args ...string) (results []fit.Result, printed string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(append([]string{"-json", file}, args...), &stdout, &stderr), "%s", &stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &results))
	require.Empty(t, memory.Allocators(), "nothing is left")
	return results, stdout.String()
}

// The tables of the documents are what the program prints.
func TestRun_PrintsTheTableOfTheDocuments(t *testing.T) {
	for _, name := range []string{"CISTERN_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"} {
		t.Setenv(name, "")
	}
	results, printed := figures(t)
	require.Len(t, results, 8)
	for _, doc := range []string{"../../README.md", "../../docs/memory.md"} {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for line := range strings.Lines(printed) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "precision") || strings.HasPrefix(line, "float") {
				require.Contains(t, string(text), line, doc)
			}
		}
	}
	plain := results[0]
	require.Equal(t, []any{"float32", false, false}, []any{plain.Precision, plain.Checkpoint, plain.Expandable})
	require.Equal(t, 83, plain.LargestBatch)
}

// Every model trains, and every measure that it takes gives something.
func TestRun_OfEveryModel(t *testing.T) {
	for i := range networks {
		n := &networks[i]
		results, printed := figures(t, "-model", n.name, "-device", "sim:16GiB", "-max-batch", "2", "-steps", "2", "-precisions", "float32,bfloat16")
		require.Contains(t, printed, n.name+": "+n.about+"\nlargest batch on 16GiB")
		rows := 4
		if n.checkpoints {
			rows = 8
		}
		require.Len(t, results, rows, n.name)
		for _, r := range results {
			require.NotEmpty(t, r.AtPeak, n.name)
			require.Positive(t, r.PeakAllocated, n.name)
			require.LessOrEqual(t, r.PeakReserved, int64(16<<30))
			require.Zero(t, r.Reads, "nothing is read: %s", n.name)
			require.Equal(t, r.LargestBatch == 2, r.AtMax)
		}
		for i := range results[:rows/2] {
			half := results[rows/2+i]
			require.Equal(t, "bfloat16", half.Precision)
			require.GreaterOrEqual(t, half.LargestBatch, results[i].LargestBatch, n.name)
			require.NotEqual(t, results[i].PeakAllocated, half.PeakAllocated, "%s: half precision is another program", n.name)
		}
	}
}

func TestRun_KnowsGPUsByTheirNames(t *testing.T) {
	results, printed := figures(t, "-model", "mlp", "-device", "rtx 4090", "-occupied", "1GiB", "-max-batch", "16", "-precisions", "float16")
	require.Len(t, results, 2)
	require.Contains(t, printed, "largest batch on RTX 4090, 23.52GiB, of which others have 1GiB")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-list"}, &stdout, &stderr))
	for _, want := range append(names(), "H100", "RTX 4090", "A100-40GB") {
		require.Contains(t, stdout.String(), want)
	}
}

// The batches that survive three steps, 9484 for one, fail in later ones.
func TestRun_FindsWhatGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Setenv("CISTERN_ALLOC_CONF", "")
	results, printed := figures(t, "-model", "resnet18", "-device", "RTX 4090", "-precisions", "float32")
	require.Equal(t, 9482, results[3].LargestBatch)
	for _, r := range results {
		require.True(t, r.Steady)
	}
	require.Contains(t, printed, "Nothing is set aside for a GPU's driver")
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-model", "gpt5"}, {"-device", "host"}, {"-device", "H1000"}, {"-occupied", "much"}, {"-occupied", "80GiB"}, {"-precisions", "int8"},
		{"-precisions", ""}, {"-precisions", "float32,float32"}, {"-steps", "0"}, {"-max-batch", "0"}, {"more"}, {"-what"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, run(args, &stdout, &stderr), "%v", args)
		require.NotEmpty(t, stderr.String())
		require.Empty(t, stdout.String())
	}
}

// The program's name stands before an error once, and a trial that failed for another reason is not said not to fit.
func TestRun_OfATrialThatFails(t *testing.T) {
	t.Setenv("CISTERN_NO_MEMORY_CACHING", "1")
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-model", "mlp"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "fit: batch 1, float32: the environment asks for an allocator that does not cache")
	require.Equal(t, 1, strings.Count(stderr.String(), "fit:"))
	require.NotContains(t, stderr.String(), "does not fit")
}

func TestRun_Interrupted_TellsWhatItHas(t *testing.T) {
	sessiontest.Interrupt(t, run, "-model", "mlp", "-steps", "1000")
}

func TestRun_InterruptedTwice_EndsAtOnce(t *testing.T) {
	sessiontest.InterruptTwice(t, run, "-model", "mlp", "-steps", "1000")
}

func TestRun_OutputsThatCannotBeWritten_AreRefusedFirst(t *testing.T) {
	sessiontest.Outputs(t, run, []string{"json"})
}

func TestRun_Help(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-h"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "-device")
}
