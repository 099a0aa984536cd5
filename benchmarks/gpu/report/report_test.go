package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What programs write, cut down to what the tables need.
const (
	bandwidthJSON = `{"device": "Test GPU", "pytorch": "PyTorch 9", "results": [
		{"operation": "memcpy", "type": "float32", "size": 1024, "bytes": 2048, "us": 1, "gb_per_s": 4000, "of_memcpy": 1},
		{"operation": "add", "type": "float32", "size": 512, "bytes": 1536, "us": 1, "gb_per_s": 10, "of_memcpy": 0.1},
		{"operation": "add", "type": "float32", "size": 1024, "bytes": 3072, "us": 1, "gb_per_s": 3600, "of_memcpy": 0.9, "pytorch_gb_per_s": 3500, "time_by_pytorchs": 0.97, "compiled": {"us": 0.5}, "time_by_compiled": 2},
		{"operation": "softmax, forward and backward", "type": "float32", "size": 1024, "bytes": 5120, "us": 9, "gb_per_s": 500, "of_memcpy": 0.1},
		{"operation": "softmax", "type": "float32", "size": 1024, "bytes": 2048, "us": 1, "gb_per_s": 2000, "of_memcpy": 0.5}]}`
	smokeJSON = `{"device": "Test GPU", "checks": [{"name": "open", "result": "ok", "ms": 12.3, "says": "8.0"}, {"name": "add", "result": "FAILED", "says": "a | b"}]}`
	gemmJSON  = `{"device": "Test GPU", "library": "cuBLAS 13", "pytorch": "PyTorch 9", "results": [
		{"problem": "product", "type": "float16", "m": 4096, "n": 4096, "k": 4096, "subject": "own", "us": 300, "tflops": 450},
		{"problem": "product", "type": "float16", "m": 4096, "n": 4096, "k": 4096, "subject": "cublas", "us": 200, "tflops": 700}]}`
	naiveJSON = `{"device_name": "Test GPU", "pytorch": "PyTorch 9", "results": [
		{"workload": "training", "allocator": "caching", "ns_per_unit": 5},
		{"workload": "single 2MiB", "allocator": "direct", "ns_per_unit": 200000},
		{"workload": "single 2MiB", "allocator": "caching", "ns_per_unit": 100},
		{"workload": "single 2MiB", "allocator": "pytorch", "ns_per_unit": 160, "loop": "C++"}]}`
	launchJSON = `{"device": "Test GPU", "pytorch": "left out", "results": [
		{"operation": "add", "call": {"ns": 900}, "stream": {"ns": 2000}, "wait": {"ns": 9000}, "go_allocations": 1.01}]}`
	loadJSON = `{"device": "Test GPU", "parallel": 4, "cold": true, "first_wall_ms": 9000, "modules": [
		{"name": "softmax", "ptx_bytes": 2048, "count": 9, "first_ms": 800, "longest_ms": 90, "second_ms": 3,
		"kernels": [{"name": "softmax_f32", "ms": 90, "registers": 40}, {"name": "softmax_f64", "ms": 80, "registers": 64, "local": 16}]}],
		"failures": [{"process": "first", "module": "softmax", "kernel": "softmax_bf16", "error": "ptxas says\n  no"}]}`
	gptJSON     = `{"steps": 300, "steps_per_second": 90, "late_steps_per_second": 100, "val_loss": 2.5, "peak_allocated_bytes": 5000000}`
	gptPeerJSON = `{"steps": 300, "steps_per_second": 70, "late_steps_per_second": 80, "val_loss": 2.51, "peak_allocated_bytes": 6000000}`
	profileCSV  = "==PROF== Connected\n" + `"ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed"
"","","","","","","us","%"
"0","/secret/path","secret.host","add_f32","(256, 1, 1)","(8, 1, 1)","9.5","10"
"1","/secret/path","secret.host","add_f32","(256, 1, 1)","(8, 1, 1)","4.5","91"
"2","/secret/path","secret.host","softm`
)

// ran is the folder of a run that has these files in it.
func ran(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "logs"), 0o777))
	all := map[string]string{
		"COMMIT": "abc123\n", "GO": "go version go1\n", "facts.txt": "PyTorch: 9\n",
		"steps.tsv":                  "load\t0\t9\t\ntest-tensor\t1\t3\t7 passed, 1 failed, 0 skipped; \nncu\tskipped\t0\tno | ncu\n",
		"logs/test-tensor.log":       "=== RUN   TestGPU_A\n    --- FAIL: TestGPU_A/x (0.00s)\n        Error:      \tNot equal\n        nothing\n",
		"logs/test-tensor.err":       "1\n2\n3\n4\n5\n6\n7\n8\nlast\n",
		"logs/half.json":             `{"device":`,
		"logs/smoke.json":            smokeJSON,
		"logs/profile-gpt2-bf16.txt": "matmul 12 ms\n\nBy name\n" + strings.Repeat("row\n", 40),
		"logs/bandwidth.json":        bandwidthJSON,
		"logs/gemm.json":             gemmJSON,
		"logs/naive.json":            naiveJSON,
		"logs/launch.json":           launchJSON,
		"logs/load.json":             loadJSON,
		"logs/gpt.json":              gptJSON,
		"logs/gpt-pytorch.json":      gptPeerJSON,
		"logs/ncu-bandwidth.csv":     profileCSV,
		"logs/sanitizer-tool.log":    "========= ERROR SUMMARY: 0 errors\n",
	}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func call(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, code, run(args, &out, &errs), errs.String())
	return out.String(), errs.String()
}

// collected is a results folder.
func collected(t *testing.T, files map[string]string, more ...string) (folder, targets string) {
	t.Helper()
	folder = t.TempDir()
	targets, _ = call(t, 0, append([]string{"collect", "-run", ran(t, files), "-out", folder, "-command", "run.sh"}, more...)...)
	return folder, targets
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

func TestCollect_SaysWhichTargetsAreMet(t *testing.T) {
	_, targets := collected(t, nil)
	require.Contains(t, targets, "| kernels bound by memory, of the driver's copy | at least 0.85 each | 1 of 2; furthest from it: softmax float32 0.50 | **missed** |")
	require.Contains(t, targets, "| own float16 product at 4096³, of cuBLAS | at least 0.60 | 0.67 (450 of 700 TFLOP/s) | met |")
	require.Contains(t, targets, "| single 2MiB: cudaMalloc+cudaFree, in pairs from the cache | at least 1000 | 2000 (200000 ns, 100 ns) | met |")
	require.Contains(t, targets, "of PyTorch's (loop in C++) | at most 0.5 | 0.62 (100 ns, 160 ns) | **missed** |")
	require.Contains(t, targets, "| Go heap allocations of an operation | 1 | at most 1.01 (add) | met |")
	require.NotContains(t, targets, "training")
	require.Contains(t, targets, "Targets not measured: those of train.")
}

func TestCollect_WritesWhatFailedFirstAndAllTables(t *testing.T) {
	folder, _ := collected(t, nil)
	text := read(t, filepath.Join(folder, "summary.md"))
	for _, want := range []string{
		"# GPU run of commit abc123 on cuda:0", "`run.sh`: 1 steps failed; 12 s in steps.", "| test-tensor | 1 | 3 | 7 passed, 1 failed, 0 skipped; |",
		"| ncu | skipped | 0 | no / ncu |", "--- FAIL: TestGPU_A/x", "Error:      \tNot equal", "2\n3\n4\n5\n6\n7\n8\nlast", "PyTorch: 9",
		"### Time by kernel: gpt2-bf16", "matmul 12 ms", "... 19 more rows; logs.tar.gz has them: logs/profile-gpt2-bf16.txt", "| open | ok | 12.3 | 8.0 |", "| add | FAILED | 0.0 | a / b |",
		"| 1KiB | float32 | add | 1.0 | 3600 | 0.90 | 3500 | 0.97 | 0.5 | 2.00 |", "| float16 | product | 4096, 4096, 4096 | 450.0 | 700.0 | - | - | - | - | 0.64 |",
		"| single 2MiB | caching | 100 | 2000.0 |", "| add | 900 | 2000 | 9000 | 1.01 | - | - | - |", "| softmax | 2 | 9 | 2 | 800 | 90 | 3.0 | 64 | 16 | 1 |",
		"With local memory: `softmax_f64` (16 bytes, 64 registers).", "**1 failures:**", "- softmax `softmax_bf16`, process first: ptxas says no",
		"| gpt | float32 | 90.00 | 100.00 | 70.00 | 80.00 | 1.25 | 5.0 | 6.0 | - | - | 2.5000 | 2.5100 |",
		"| add_f32 | (256, 1, 1)(8, 1, 1) | 4.5 us |  | 91 |",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "nothing")
	require.NotContains(t, text, "9.5", "of two launches the last one counts")
	require.NotContains(t, text+read(t, filepath.Join(folder, "results.json")), "secret")
	require.NotContains(t, text, "1\n2\n3\n4\n5\n6\n7\n8\nlast")
	require.Less(t, strings.Index(text, "Failed tests"), strings.Index(text, "### bandwidth"))
}

func TestCollect_TakesWhatThereIsSoFar(t *testing.T) {
	run, folder := t.TempDir(), t.TempDir()
	call(t, 0, "collect", "-run", run, "-out", folder)
	require.Contains(t, read(t, filepath.Join(folder, "summary.md")), "0 steps failed")
	r, err := open(folder)
	require.NoError(t, err)
	require.Empty(t, r.Figures)
	whole, _ := collected(t, nil)
	r, err = open(whole)
	require.NoError(t, err)
	require.NotContains(t, r.Figures, "half")
	require.Equal(t, "Test GPU", r.Name)
}

func TestCollect_RefusesWrongSteps(t *testing.T) {
	for _, steps := range []string{"a\tb\n", "a\t0\tx\t\n"} {
		_, errs := call(t, 1, "collect", "-run", ran(t, map[string]string{"steps.tsv": steps}), "-out", t.TempDir())
		require.Contains(t, errs, "steps.tsv")
	}
}

func TestImport_WritesFiguresAndReplacesTheSection(t *testing.T) {
	first, _ := collected(t, nil)
	second, _ := collected(t, map[string]string{"logs/launch.json": strings.ReplaceAll(launchJSON, "900", "700"), "steps.tsv": "launch\t0\t1\t\n"})
	dir := t.TempDir()
	tables := filepath.Join(dir, "RESULTS.md")
	require.NoError(t, os.WriteFile(tables, []byte("# Results\n\nbefore\n"), 0o600))
	args := []string{"import", "-results", filepath.Join(dir, "results"), "-tables", tables, first, second}
	out, _ := call(t, 0, args...)
	require.Contains(t, out, "test-gpu")
	once := read(t, tables)
	require.Contains(t, once, "before\n\n<!-- run.sh on test-gpu -->\n## Test GPU: run.sh")
	require.Contains(t, once, "commit abc123, go version go1. Command: `run.sh; run.sh`")
	require.Contains(t, once, "| add | 700 |", "the last run counts")
	require.Contains(t, once, "test-tensor exit 1 (7 passed, 1 failed, 0 skipped;); ncu skipped (no | ncu); launch passed.")
	require.NoError(t, os.WriteFile(tables, []byte(once+"after\n"), 0o600))
	call(t, 0, args...)
	require.Equal(t, once+"after\n", read(t, tables))
	files, err := filepath.Glob(filepath.Join(dir, "results", "test-gpu", "launch-*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	var launches struct {
		Commit, Command, Device string
		Figures                 launch
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, files[0])), &launches))
	require.Equal(t, "abc123", launches.Commit)
	require.Equal(t, "Test GPU", launches.Device)
	require.InDelta(t, 700, launches.Figures.Results[0].Call.Ns, 0)
}

func TestImport_RefusesFiguresThatAreNoGPUs(t *testing.T) {
	dir := t.TempDir()
	to := []string{"import", "-results", filepath.Join(dir, "results"), "-tables", filepath.Join(dir, "RESULTS.md")}
	quick, _ := collected(t, nil, "-quick")
	emulated, _ := collected(t, map[string]string{"logs/smoke.json": `{"device": "Cistern Emulated GPU"}`})
	nameless := t.TempDir()
	call(t, 0, "collect", "-run", ran(t, map[string]string{"logs/smoke.json": "{}", "logs/bandwidth.json": "{}", "logs/gemm.json": "{}", "logs/launch.json": "{}", "logs/load.json": "{}",
		"logs/naive.json": "{}"}), "-out", nameless)
	for folder, want := range map[string]string{quick: "quick", emulated: "no GPU", nameless: "no program found a GPU", t.TempDir(): "results.json"} {
		_, errs := call(t, 1, append(to, folder)...)
		require.Contains(t, errs, want)
	}
	good, _ := collected(t, nil)
	other, _ := collected(t, map[string]string{"COMMIT": "def456"})
	_, errs := call(t, 1, append(to, good, other)...)
	require.Contains(t, errs, "def456")
	require.NoFileExists(t, filepath.Join(dir, "RESULTS.md"))
	call(t, 0, append(to[:len(to):len(to)], "-force", quick)...)
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{}, {"what"}, {"collect"}, {"collect", "-run", "x", "-out", "y", "z"}, {"collect", "-what"}, {"import"}} {
		_, errs := call(t, 2, args...)
		require.Contains(t, errs, "report")
	}
	call(t, 0, "collect", "-h")
	call(t, 0, "import", "-h")
}

func TestCollect_SaysWhatHasNotRun(t *testing.T) {
	folder, _ := collected(t, map[string]string{"steps.tsv": "smoke\t0\t1\t\ntest-tensor\tinterrupted\t1\t\ngemm\tpending\t0\t\n"})
	text := read(t, filepath.Join(folder, "summary.md"))
	require.Contains(t, text, "0 steps failed")
	require.Contains(t, text, "**Not finished**: test-tensor, gemm.")
	require.NotContains(t, text, "Failed tests")
}

func TestCollect_ShowsWhatAStepDidWhenItsTimeWasOver(t *testing.T) {
	stack := "SIGQUIT: quit\nPC=0x1\n\ngoroutine 1 [running]:\ntesting.x()\n\ngoroutine 7 [syscall]:\ngithub.com/cistern-ml/cistern/device/cuda.wait()\n\nr13 0x1\n"
	folder, _ := collected(t, map[string]string{"steps.tsv": "gemm\t124\t60\tnot done\n", "logs/gemm.err": stack})
	text := read(t, filepath.Join(folder, "summary.md"))
	require.Contains(t, text, "gemm, when its time was over:\ngoroutine 7 [syscall]:\ngithub.com/cistern-ml/cistern/device/cuda.wait()")
	require.NotContains(t, text, "r13")
	require.NotContains(t, text, "goroutine 1 ")
}

func TestCollect_ShowsTheErrorOfATest(t *testing.T) {
	folder, _ := collected(t, map[string]string{"logs/test-tensor.log": "        Error:      \tReceived unexpected error:\n            \tno driver\n            \tmore\n"})
	require.Contains(t, read(t, filepath.Join(folder, "summary.md")), "no driver")
}

func TestCollect_TakesNoFoldersOfTheMachineAlong(t *testing.T) {
	folder, _ := collected(t, map[string]string{"facts.txt": "library: /opt/secret/lib/libx.so, linux/amd64, /opt/secret/a:/opt/secret/b/\n"})
	text := read(t, filepath.Join(folder, "results.json"))
	require.NotContains(t, text, "secret/")
	require.Contains(t, text, "linux/amd64")
}

func TestImport_KeepsWhatEarlierRunsMeasured(t *testing.T) {
	dir := t.TempDir()
	tables := filepath.Join(dir, "RESULTS.md")
	require.NoError(t, os.WriteFile(tables, []byte("# Results\n\n"+noGPU+"rest\n"), 0o600))
	args := []string{"import", "-results", filepath.Join(dir, "results"), "-tables", tables}
	whole, _ := collected(t, nil)
	call(t, 0, append(args[:len(args):len(args)], whole)...)
	require.NotContains(t, read(t, tables), "No section is from a GPU")
	one := t.TempDir()
	run := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(run, "logs"), 0o777))
	for name, text := range map[string]string{"COMMIT": "def456", "steps.tsv": "launch\t0\t1\t\n", "logs/launch.json": strings.ReplaceAll(launchJSON, "900", "555")} {
		require.NoError(t, os.WriteFile(filepath.Join(run, name), []byte(text), 0o600))
	}
	call(t, 0, "collect", "-run", run, "-out", one)
	call(t, 0, append(args[:len(args):len(args)], one)...)
	text := read(t, tables)
	require.Contains(t, text, "| add | 555 |")
	require.Contains(t, text, "### gemm")
	require.Contains(t, text, "gemm ("+time.Now().UTC().Format(time.DateOnly)+", commit abc123)")
}

func TestImport_RefusesDamagedResults(t *testing.T) {
	good := `{"date": "2026-01-02", "commit": "abc", "name": "GPU", "device": "cuda:0", "steps": [{"step": "a", "exit": "0"}], "figures": {"smoke": {}}}`
	for was, is := range map[string]string{"2026-01-02": "../../evil", `"abc"`: `""`, `"smoke": {}`: `"smoke": "garbage"`, `"smoke"`: `"../x"`, "cuda:0": "bogus",
		`[{"step": "a", "exit": "0"}]`: "[]", "{": "null"} {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "results.json"), []byte(strings.Replace(good, was, is, 1)), 0o600))
		call(t, 1, "import", "-results", filepath.Join(folder, "results"), "-tables", filepath.Join(folder, "RESULTS.md"), folder)
		require.NoFileExists(t, filepath.Join(folder, "RESULTS.md"))
	}
	whole, _ := collected(t, nil)
	_, errs := call(t, 1, "import", "-results", t.TempDir(), whole, whole)
	require.Contains(t, errs, "twice")
}
