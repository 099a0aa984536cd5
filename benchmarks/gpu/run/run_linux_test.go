package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain is also a program that hangs, for the test that wants one of Go's.
func TestMain(m *testing.M) {
	if os.Getenv("CISTERN_TEST_HANG") == "1" {
		hangForTest()
	}
	os.Exit(m.Run())
}

// hangForTest waits for a pipe into which nobody writes.
func hangForTest() {
	r, w, err := os.Pipe()
	if err == nil {
		_, err = r.Read(make([]byte, 1))
	}
	panic(fmt.Sprint("the wait is over: ", err, w))
}

// bundle is one with programs that are shell scripts. "report" writes what it was given.
func bundle(t *testing.T, programs map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o777))
	}
	put("COMMIT", "0123456789ab\n")
	put("GO", "go version test\n")
	put("bin/report", `#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -run) run=$2 ;; -out) out=$2 ;; esac; shift; done
cp "$run/steps.tsv" "$out/results.json"; cp "$run/steps.tsv" "$out/summary.md"; echo the targets
`)
	for _, name := range []string{"device_cuda", "memory", "kernels_cuda", "tensor", "autograd", "amp"} {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, "tests", name), 0o777))
		put("bin/"+name+".test", "#!/bin/sh\necho '--- PASS: TestGPU_Of_"+name+"'\necho PASS\n")
	}
	for name, text := range programs {
		put("bin/"+name, "#!/bin/sh\n"+figures+text+"\n")
	}
	return folder
}

// figures is the beginning of a script that writes an empty object to the file of its flag -json.
const figures = `last=; for a in "$@"; do [ "$last" = -json ] && echo '{}' >"$a"; last=$a; done
`

// scripted is the PATH of a machine that has these tools and a shell's.
func scripted(t *testing.T, tools map[string]string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range tools {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text+"\n"), 0o777))
	}
	t.Setenv("PATH", folder+":/usr/bin:/bin")
	t.Setenv("TMPDIR", t.TempDir()) // two tests of two checkouts may run at the same time
	t.Setenv("PYTHON", "/no/python")
}

// do runs steps and returns the exit code, how each ended, and the folder of results.
func do(t *testing.T, bundle string, args ...string) (code int, ended map[string]string, order []string, out string) {
	t.Helper()
	out = t.TempDir()
	var stdout, stderr bytes.Buffer
	code = run(context.Background(), append([]string{"-bundle", bundle, "-out", out}, args...), &stdout, &stderr)
	require.Contains(t, stdout.String(), "the targets", stderr.String())
	ended, order = stepsOf(t, filepath.Join(out, "results.json"))
	return code, ended, order, out
}

func stepsOf(t *testing.T, file string) (ended map[string]string, order []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	ended = map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, fields, 4)
		ended[fields[0]] = fields[1] + " " + fields[3]
		order = append(order, fields[0])
	}
	return ended, order
}

// logs are the files in logs.tar.gz.
func logs(t *testing.T, out string) map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join(out, "logs.tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := map[string]string{}
	for pack := tar.NewReader(zip); ; {
		head, err := pack.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(pack)
		require.NoError(t, err)
		files[head.Name] = string(text)
	}
}

// brief are steps that may take little time, for tests of what happens when it is over.
func brief(t *testing.T, most time.Duration, names ...string) {
	t.Helper()
	for _, name := range names {
		s := find(name)
		was := *s
		s.reserve, s.most = most, most
		t.Cleanup(func() { *s = was })
	}
}

func TestRun_ReportsEachStepWhateverTheOthersDo(t *testing.T) {
	scripted(t, nil)
	brief(t, 3*time.Second, "load", "test-memory")
	b := bundle(t, map[string]string{
		"smoke":            "echo broken >&2; exit 3",
		"load":             "trap '' QUIT; echo loading; while :; do sleep 0.1; done", // only SIGKILL ends it
		"device_cuda.test": "kill -SEGV $$",
		"memory.test":      "sleep 1000 & sleep 1000",
		"gemm":             "echo '{}'",
		"gpt":              "exit 0",
		"train":            "echo $*",
	})
	begin := time.Now()
	code, ended, order, out := do(t, b, "one")
	require.Less(t, time.Since(begin), time.Minute)
	require.Equal(t, 1, code)
	require.Equal(t, []string{"facts", "smoke", "load", "test-device_cuda", "test-memory", "test-kernels_cuda",
		"test-tensor", "test-autograd", "test-amp", "gemm", "gpt-start", "gpt", "gpt-pytorch", "profile"}, order)
	require.Equal(t, "3 broken", ended["smoke"])
	require.Contains(t, ended["load"], "124 not done after 2 s of 3")
	require.Contains(t, ended["test-device_cuda"], "signal: segmentation fault")
	require.Contains(t, ended["test-memory"], "124 not done after")
	require.Equal(t, "0 1 passed, 0 failed, 0 skipped", ended["test-kernels_cuda"])
	require.Equal(t, "0 ", ended["gemm"])
	require.Contains(t, ended["gpt-pytorch"], "skipped")
	files := logs(t, out)
	require.Regexp(t, `-device cuda:0 .*-model gpt2,resnet50 .*-profile \S+/logs/profile `, files["logs/profile.log"])
	require.Equal(t, "broken\n", files["logs/smoke.err"])
	require.Equal(t, "loading\n", files["logs/load.log"])
	require.Contains(t, files["steps.tsv"], "gpt")
}

func TestRun_AHangingGoProgramSaysWhere(t *testing.T) {
	scripted(t, nil)
	brief(t, 4*time.Second, "smoke")
	self, err := os.Executable()
	require.NoError(t, err)
	b := bundle(t, map[string]string{"smoke": "CISTERN_TEST_HANG=1 exec " + self})
	code, ended, _, out := do(t, b, "smoke")
	require.Equal(t, 1, code)
	require.Contains(t, ended["smoke"], "not done after 3 s of 4")
	require.Contains(t, logs(t, out)["logs/smoke.err"], "run.hangForTest")
}

func TestRun_StopsWhereTheTimeIsOver(t *testing.T) {
	scripted(t, nil)
	b := bundle(t, map[string]string{"smoke": "exit 0", "launch": "exit 0"})
	code, ended, _, _ := do(t, b, "-t", "10", "-begun", fmt.Sprint(time.Now().Unix()-10), "smoke", "launch", "bandwidth")
	require.Equal(t, 3, code, "nothing failed")
	require.Equal(t, "no time left not run", ended["launch"])
	require.Equal(t, "no time left not run", ended["bandwidth"])
}

func TestRun_TestsGoOnWithoutTheOneThatLostTheDevice(t *testing.T) {
	scripted(t, nil)
	b := bundle(t, map[string]string{"tensor.test": `
case "$*" in
*TestGPU_Bad*) echo "=== RUN   TestGPU_Good"; echo "--- PASS: TestGPU_Good"; echo PASS ;;
*) echo "=== RUN   TestGPU_Bad/case_(1)"; echo "CUDA_ERROR_ILLEGAL_ADDRESS (700)"; echo "--- FAIL: TestGPU_Bad"; echo "--- FAIL: TestGPU_Good"; exit 1 ;;
esac`})
	code, ended, order, out := do(t, b, "test-tensor")
	require.Equal(t, 1, code, "the first round failed")
	require.Equal(t, "1 then the device was lost in TestGPU_Bad/case_(1)", strings.ReplaceAll(ended["test-tensor"], "; in TestGPU_Bad/case_(1)", ""))
	require.Equal(t, []string{"test-tensor", "test-tensor-2"}, order)
	require.Equal(t, "0 1 passed, 0 failed, 0 skipped", ended["test-tensor-2"])
	require.Contains(t, logs(t, out), "logs/test-tensor-2.log")
	require.Equal(t, `^TestGPU_Bad$/^case_\(1\)$`, lostIn("=== RUN   TestGPU_Bad/case_(1)\nCUDA_ERROR_ILLEGAL_ADDRESS"))
}

func TestRun_ToolsThatDoNotWorkHereAreSkippedWithALine(t *testing.T) {
	was := probeLimit
	probeLimit = 2 * time.Second
	t.Cleanup(func() { probeLimit = was })
	const version = `[ "$1" = --version ] && exit 0; `
	for name, c := range map[string]struct{ tool, says string }{
		"missing": {"", "is not installed"},
		"refuses": {version + "echo device not supported; exit 9", "does not work here: exit 9 after"},
		"hangs":   {version + "sleep 100", "not done after"},
	} {
		t.Run(name, func(t *testing.T) {
			tools := map[string]string{}
			if c.tool != "" {
				tools["compute-sanitizer"], tools["ncu"] = c.tool, c.tool
			}
			scripted(t, tools)
			code, ended, _, _ := do(t, bundle(t, nil), "sanitizer-racecheck", "ncu-gemm")
			require.Zero(t, code, "no failure: %v", ended)
			for _, step := range []string{"sanitizer-racecheck", "ncu-gemm"} {
				require.Contains(t, ended[step], "skipped")
				require.Contains(t, ended[step], c.says)
			}
		})
	}
	t.Run("works", func(t *testing.T) {
		scripted(t, map[string]string{"compute-sanitizer": version + `echo "$@"; echo "========= ERROR SUMMARY: 0 errors"`})
		code, ended, _, out := do(t, bundle(t, nil), "sanitizer-racecheck")
		require.Zero(t, code)
		require.Equal(t, "0 ERROR SUMMARY: 0 errors", ended["sanitizer-racecheck"])
		require.Contains(t, logs(t, out)["logs/sanitizer-racecheck.log"], "--tool racecheck")
	})
}

func TestRun_AReportThatFailsLosesNoLogs(t *testing.T) {
	scripted(t, nil)
	b := bundle(t, map[string]string{"smoke": "echo fine", "report": "exit 7"})
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run(context.Background(), []string{"-bundle", b, "-out", out, "smoke"}, &stdout, &stderr), "nobody would see the results")
	require.Contains(t, stderr.String(), "report: exit status 7")
	require.Contains(t, logs(t, out), "steps.tsv")
}

// packed is a bundle as pack.sh makes it, beside run.sh.
func packed(t *testing.T, programs map[string]string) string {
	t.Helper()
	for _, tool := range []string{"bash", "tar", "xz", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: the script is not run without %s", tool)
		}
	}
	b := bundle(t, programs)
	folder := t.TempDir()
	script, err := os.ReadFile("../run.sh")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "run.sh"), script, 0o777))
	command := func(name string, args ...string) {
		text, err := exec.Command(name, args...).CombinedOutput()
		require.NoError(t, err, string(text))
	}
	command("go", "build", "-buildvcs=false", "-o", filepath.Join(b, "bin", "run"), ".")
	command("tar", "-C", b, "-cJf", filepath.Join(folder, "bundle.tar.xz"), ".")
	return folder
}

func TestScript_UnpacksRunsAndKeepsResultsWhenItIsEnded(t *testing.T) {
	for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sent.String(), func(t *testing.T) { endedBy(t, sent) })
	}
}

func endedBy(t *testing.T, sent syscall.Signal) {
	// A signal that this process ignores, as under nohup, its children would ignore too; one that it catches they do not.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, sent)
	defer signal.Stop(caught)
	folder := packed(t, map[string]string{"smoke": "echo smoke", "load": `echo loading; touch "$LOADING"; exec sleep 1000`})
	scripted(t, nil)
	loading := filepath.Join(t.TempDir(), "loading")
	t.Setenv("LOADING", loading)
	out := filepath.Join(t.TempDir(), "results")
	c := exec.Command("bash", filepath.Join(folder, "run.sh"), "-out", out, "smoke", "load", "launch")
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool { return isFile(loading) }, time.Minute, 20*time.Millisecond, "the second step begins")
	first, _ := stepsOf(t, filepath.Join(out, "results.json"))
	require.Equal(t, map[string]string{"smoke": "0 ", "load": "pending ", "launch": "pending "}, first, "results are there after the first step")
	require.NoError(t, c.Process.Signal(sent))
	require.Error(t, c.Wait())
	require.Equal(t, 130, c.ProcessState.ExitCode(), output.String())
	ended, order := stepsOf(t, filepath.Join(out, "results.json"))
	require.Equal(t, []string{"smoke", "load", "launch"}, order)
	require.Contains(t, ended["load"], "interrupted")
	require.Contains(t, output.String(), "-rest load launch", "how to go on")
	require.Equal(t, "interrupted not run", ended["launch"])
	require.Contains(t, logs(t, out), "logs/load.log")
}

func TestScript_SaysIfTheBundleIsBroken(t *testing.T) {
	folder := packed(t, nil)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "bundle.tar.xz"), []byte("broken"), 0o666))
	text, err := exec.Command("bash", filepath.Join(folder, "run.sh"), "smoke").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(text), "cannot be unpacked")
	require.NoError(t, os.Remove(filepath.Join(folder, "bundle.tar.xz")))
	text, err = exec.Command("bash", filepath.Join(folder, "run.sh"), "smoke").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(text), "there is no bundle.tar.xz")
	t.Setenv("TMPDIR", "/nonexistent")
	t.Chdir(t.TempDir())
	text, err = exec.Command("bash", filepath.Join(folder, "run.sh"), "smoke").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(text), "TMPDIR names another")
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, entries, "nothing is unpacked elsewhere")
}

func TestRun_KeepsTheBeginningAndTheEndOfWhatAStepPrints(t *testing.T) {
	scripted(t, nil)
	b := bundle(t, map[string]string{"smoke": "echo first; head -c 20000000 /dev/zero; echo last >&2; echo last"})
	code, _, _, out := do(t, b, "smoke")
	require.Zero(t, code)
	log := logs(t, out)["logs/smoke.log"]
	require.True(t, strings.HasPrefix(log, "first\n"))
	require.True(t, strings.HasSuffix(log, "last\n"))
	require.Contains(t, log, "bytes are left out")
	require.Less(t, len(log), keptFirst+keptLast+100)
}

func TestRun_NothingThatAStepHasStartedOutlivesIt(t *testing.T) {
	scripted(t, nil)
	marker := filepath.Join(t.TempDir(), "pid")
	b := bundle(t, map[string]string{"smoke": "setsid sh -c 'trap \"\" TERM QUIT; echo $$ >" + marker + "; while :; do sleep 0.1; done' & while [ ! -s " + marker + " ]; do sleep 0.01; done"})
	code, _, _, _ := do(t, b, "smoke")
	require.Zero(t, code)
	text, err := os.ReadFile(marker)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join("/proc", strings.TrimSpace(string(text)), "cmdline"))
}

func TestRun_EndsWhereTheDeviceCannotBeOpened(t *testing.T) {
	scripted(t, nil)
	b := bundle(t, map[string]string{"smoke": "echo 'FAILED   driver   1.0 ms  no NVIDIA driver library found'; exit 1", "launch": "exit 0"})
	code, ended, _, _ := do(t, b, "smoke", "launch")
	require.Equal(t, 1, code)
	require.Contains(t, ended["smoke"], "1 FAILED driver 1.0 ms no NVIDIA driver library found")
	require.Contains(t, ended["launch"], "not run the device cannot be opened: driver")
}

func TestRun_AStepMustLeaveWhatItIsFor(t *testing.T) {
	scripted(t, nil)
	b := bundle(t, nil)
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(b, "bin", name), []byte("#!/bin/sh\n"+text+"\n"), 0o777))
	}
	put("launch", "exit 0")
	put("amp.test", "echo '--- PASS: TestGPU_A'; echo '=== RUN   TestGPU_B'")
	put("memory.test", "echo PASS")
	code, ended, _, _ := do(t, b, "launch", "test-amp", "test-memory")
	require.Equal(t, 1, code)
	require.Contains(t, ended["launch"], "incomplete it has written no figures")
	require.Contains(t, ended["test-amp"], "incomplete the tests did not come to their end; 1 passed, 0 failed, 0 skipped; in TestGPU_B")
	require.Contains(t, ended["test-memory"], "nothing was tested")
}

func TestRun_SetsOlderResultsAside(t *testing.T) {
	scripted(t, nil)
	b := bundle(t, map[string]string{"smoke": "exit 0", "launch": "exit 0"})
	out := filepath.Join(t.TempDir(), "results")
	for _, step := range []string{"smoke", "launch", "smoke"} {
		var stdout, stderr bytes.Buffer
		require.Zero(t, run(context.Background(), []string{"-bundle", b, step, "-out", out}, &stdout, &stderr), stderr.String())
	}
	for folder, step := range map[string]string{out + ".1": "smoke", out + ".2": "launch", out: "smoke"} {
		ended, _ := stepsOf(t, filepath.Join(folder, "results.json"))
		require.Equal(t, map[string]string{step: "0 "}, ended)
	}
}

func TestRun_RefusesASecondRunOnTheSameDevice(t *testing.T) {
	scripted(t, nil)
	unlock, err := lock(filepath.Join(os.TempDir(), "cistern-gpu-cuda-0.lock"))
	require.NoError(t, err)
	defer unlock()
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run(context.Background(), []string{"-bundle", bundle(t, nil), "-out", t.TempDir(), "facts"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "another run uses cuda:0")
}

func TestRun_ToolsThatHangDoNotTakeTheTime(t *testing.T) {
	const hang = "trap '' TERM QUIT; sleep 1000 & while :; do sleep 0.1; done"
	scripted(t, map[string]string{"nvidia-smi": hang, "ncu": hang, "nvcc": hang, "python3": hang})
	t.Setenv("PYTHON", "")
	was, wasPythons := toolLimit, pythons
	toolLimit, pythons = time.Second, []string{"python3"}
	t.Cleanup(func() { toolLimit, pythons = was, wasPythons })
	begin := time.Now()
	code, ended, _, _ := do(t, bundle(t, map[string]string{"smoke": "exit 0"}), "-t", "40", "facts", "smoke")
	require.Less(t, time.Since(begin), 30*time.Second)
	require.Zero(t, code, ended)
}
