package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	attentionJSON = `{"device": "Test GPU", "pytorch": "PyTorch 9", "refused": ["flash of float32 (no kernel)"], "failed": ["one"], "results": [
		{"batch": 2, "heads": 3, "queries": 4, "keys": 5, "width": 6, "type": "float16", "causal": true, "pass": "both", "us": 50, "tflops": 1.5,
			"peak_bytes": 2000000, "host_us": 48, "host_bound": true, "pytorch": {"flash": {"us": 100, "peak_bytes": 1000000, "difference": 0.001},
			"math": {"us": 300, "difference": 0.5}}, "pytorch_best": "flash", "time_by_pytorchs": 0.5},
		{"batch": 1, "heads": 1, "queries": 1, "keys": 7, "width": 8, "groups": 1, "type": "float32", "pass": "forward", "us": 20,
			"pytorch": {"math": {"us": 10, "difference": 0.01}}, "pytorch_best": "math", "time_by_pytorchs": 2},
		{"batch": 1, "heads": 4, "queries": 1, "keys": 9, "width": 8, "groups": 2, "type": "float32", "pass": "forward", "us": 20}]}`
	convJSON = `{"device": "Test GPU", "pytorch": "PyTorch 9", "results": [
		{"n": 32, "c": 64, "h": 56, "w": 56, "o": 128, "kh": 3, "kw": 3, "stride": 2, "padding": 1, "groups": 1, "type": "float32", "pass": "weight",
			"us": 90, "tflops": 20, "peak_bytes": 512, "host_us": 3, "strided": {"us": 95},
			"pytorch": {"nchw": {"us": 120, "difference": 0.5}, "channels last": {"us": 100, "peak_bytes": 4000000, "difference": 1e-7}, "nchw tf32": {"us": 30}},
			"pytorch_best": "channels last", "time_by_pytorchs": 0.9}]}`
)

func TestCollect_ComparesCallsWithPyTorch(t *testing.T) {
	folder, _ := collected(t, map[string]string{"logs/attention.json": attentionJSON, "logs/conv.json": convJSON})
	text := read(t, filepath.Join(folder, "summary.md"))
	for _, want := range []string{
		"Faster than PyTorch: bandwidth 1 of 1; bandwidth, compiled 0 of 1; attention 1 of 2; conv 1 of 1.",
		"PyTorch: PyTorch 9. Faster than PyTorch's fastest way: 1 of 2; one side bound by the host: 1 of 3. **Failed**: one." +
			" **Results differ**: 1x1x1x7x8 float32 forward. PyTorch refused: flash of float32 (no kernel).",
		"| shape | type | causal | pass | µs | TFLOP/s | host µs | peak MB | flash µs | math µs | best | its peak MB | difference | time / PyTorch's |",
		"| 2, 3, 4, 5, 6 | float16 | true | both | 50.0 | 1.50 | 48.0 (bound) | 2.0 | 100.0 | 300.0 | flash | 1.0 | 1e-03 | 0.50 |",
		"| 1, 1, 1, 7, 8 | float32 | false | forward | 20.0 | 0.00 | - | - | - | 10.0 | math | - | 1e-02 | 2.00 |",
		"| 1, 4, 1, 9, 8, 2 | float32 | false | forward | 20.0 | 0.00 | - | - | - | - | - | - | - | - |",
		"| nchw µs | channels last µs | nchw tf32 µs | best |",
		"| 32x64x56x56, 128 of 3x3, stride 2, padding 1, groups 1 | float32 | weight | 95.0 | 90.0 | 20.00 | 3.0 | 0.0 | 120.0 | 100.0 | 30.0 | channels last | 4.0 | 1e-07 | 0.90 |",
	} {
		require.Contains(t, text, want)
	}
	require.Less(t, strings.Index(text, "Faster than PyTorch: "), strings.Index(text, "### "))
	for line := range strings.Lines(text) { // each row has as many cells as its head
		if strings.HasPrefix(line, "| 2, 3, 4") || strings.HasPrefix(line, "| shape | type | causal") {
			require.Equal(t, 15, strings.Count(line, "|"), line)
		}
	}
}

func TestFaster_CountsProductsAndCallsToo(t *testing.T) {
	gemm := strings.Replace(gemmJSON, `"tflops": 700}`, `"tflops": 700}, {"problem": "product", "type": "float16", "m": 4096, "n": 4096, "k": 4096,
		"subject": "pytorch", "us": 210, "tflops": 650}`, 1)
	launch := strings.Replace(launchJSON, `"go_allocations": 1.01`, `"go_allocations": 1.01, "pytorch": {"stream": {"ns": 1500}}`, 1)
	bandwidth := strings.Replace(bandwidthJSON, `"pytorch"`, `"failed": ["add of float16: no", "b"], "pytorch"`, 1)
	folder, _ := collected(t, map[string]string{"logs/gemm.json": gemm, "logs/launch.json": launch, "logs/bandwidth.json": bandwidth})
	text := read(t, filepath.Join(folder, "summary.md"))
	require.Contains(t, text, "; gemm 1 of 1; launch 0 of 1.")
	require.Contains(t, text, "**Failed**: add of float16: no; b\n")
	none := t.TempDir()
	call(t, 0, "collect", "-run", t.TempDir(), "-out", none)
	require.NotContains(t, read(t, filepath.Join(none, "summary.md")), "Faster than PyTorch")
}
