package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// trainPeersJSON is what benchmarks/train writes, cut down.
const trainPeersJSON = `{"device": "Test GPU", "library": "cuBLAS 13", "pytorch": "PyTorch 9", "results": [
	{"model": "gpt2", "amp": "bf16", "batch": 16, "unit": "tokens", "items_per_step": 16384, "runs": 5, "steps_per_run": 10, "subjects": [
		{"name": "cistern", "first_step_s": 1.25, "us": 50000, "us_fastest": 49000, "us_slowest": 52000, "items_per_s": 327680, "tflops": 281.5,
			"peak_allocated_bytes": 9000000000, "peak_reserved_bytes": 9700000000, "losses": [10.8, 10.1, 9.5]},
		{"name": "pytorch eager", "us": 40000, "us_fastest": 39000, "us_slowest": 41000, "items_per_s": 409600,
			"peak_allocated_bytes": 20000000000, "losses": [10.8, 9.6], "cistern_by_this": {"rate": 0.8, "peak_allocated": 0.45}},
		{"name": "cistern graph", "us": 40000, "us_fastest": 40000, "us_slowest": 41000, "items_per_s": 409600, "rate_by_own_eager": 1.25},
		{"name": "pytorch graph", "us": 32000, "us_fastest": 31000, "us_slowest": 33000, "items_per_s": 512000, "rate_by_own_eager": 1.25,
			"cistern_by_this": {"rate": 0.8}},
		{"name": "pytorch compile", "remark": "no | compiler"}]},
	{"model": "resnet50", "amp": "fp16", "batch": 128, "unit": "images", "subjects": [{"name": "cistern", "remark": "CUDA_ERROR"}]}]}`

func TestCollect_PutsTrainingStepsBesidePyTorchs(t *testing.T) {
	small := `{"pytorch": "left out: no PyTorch", "results": [{"model": "mlp", "subjects": [{"name": "cistern graph", "us": 90, "us_fastest": 80, "us_slowest": 100}]}]}`
	folder, targets := collected(t, map[string]string{"logs/train.json": trainPeersJSON, "logs/train-small.json": small})
	text := read(t, filepath.Join(folder, "summary.md"))
	for _, want := range []string{
		"### train: whole training steps", "PyTorch: PyTorch 9. Products: cuBLAS 13.", "### train-small: ", "PyTorch: left out: no PyTorch.",
		"| gpt2 | bf16 | 16 | cistern | 50.00 | (49.00-52.00) | 327680 tokens | 281.5 | 1.25 | 9000.0 | 9700.0 | 10.8000 | 9.5000 | - | - | - | - |  |",
		"| gpt2 | bf16 | 16 | pytorch eager | 40.00 | (39.00-41.00) | 409600 tokens | - | - | 20000.0 | - | 10.8000 | 9.6000 | - | 0.80 | 0.450 | - |  |",
		"| cistern graph | 40.00 | (40.00-41.00) | 409600 tokens | - | - | - | - | - | - | 1.25 | - | - | - |  |",
		"| pytorch graph | 32.00 | (31.00-33.00) | 512000 tokens | - | - | - | - | - | - | 1.25 | 0.80 | - | - |  |",
		"| pytorch compile | - |  | - | - | - | - | - | - | - | - | - | - | - | no / compiler |", "| CUDA_ERROR |", "| cistern graph | 0.09 | (0.08-0.10) |",
	} {
		require.Contains(t, text, want)
	}
	require.Contains(t, targets, "| GPT-2, bf16, batch 16: tokens/s, of PyTorch's eager mode | at least 1.00 | 0.80 (327680 of 409600) | **missed** |")
	require.Contains(t, targets, "| GPT-2, bf16, batch 16: peak allocated, of PyTorch's eager mode | at most 1.00 | 0.45 (9000 of 20000 MB) | met |")
}

func TestCollect_HasNoTargetsOfTrainingWithoutBothSides(t *testing.T) {
	for _, half := range []string{"{}", `{"results": [{"model": "gpt2", "subjects": [{"name": "pytorch eager", "items_per_s": 5}]}]}`,
		`{"results": [{"model": "gpt2", "subjects": [{"name": "cistern", "items_per_s": 5}, {"name": "pytorch eager", "remark": "stopped"}]}]}`} {
		_, targets := collected(t, map[string]string{"logs/train.json": half})
		require.NotContains(t, targets, "GPT-2")
	}
}
