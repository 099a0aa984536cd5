package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/comm/nccl"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// programVariable makes this test binary the program, for launchers of MPI.
const programVariable = "CISTERN_PARALLEL_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

var small = []string{"-layers", "2", "-width", "16", "-heads", "2", "-seq", "8", "-batch", "8", "-steps", "6", "-lr", "5e-3"}

// read reads the figures, whose peaks must be what was predicted, to the byte.
func read(t *testing.T, file string, ranks int) (r report) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, ranks, r.Ranks)
	require.Len(t, r.Peak, ranks)
	require.Equal(t, r.Predicted, r.Peak)
	require.Len(t, r.Seconds, ranks)
	return r
}

func reported(t *testing.T, ranks int, args ...string) report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var out, stderr bytes.Buffer
	args = append(append(append([]string{"-ranks", fmt.Sprint(ranks)}, small...), args...), "-json", file)
	require.Zero(t, run(args, &out, &stderr), "%s", &stderr)
	require.Contains(t, out.String(), fmt.Sprintf("%d ranks by loopback", ranks))
	return read(t, file, ranks)
}

func TestRun_AnyNumberOfRanksTrainsAlike(t *testing.T) {
	for _, model := range []string{"gpt", "digits"} {
		one := reported(t, 1, "-model", model)
		if model == "gpt" { // of digits six small batches differ by more than they teach
			require.Less(t, one.Losses[5], one.Losses[0])
		}
		for stage := range 4 {
			if model == "digits" && stage == 3 {
				continue
			}
			have := reported(t, 2, "-model", model, "-zero", fmt.Sprint(stage))
			tolerance := 1e-4
			if model == "digits" { // each rank has a batch norm of its own
				tolerance = 0.5
			}
			require.InDeltaSlice(t, one.Losses, have.Losses, tolerance, "%s, ZeRO %d", model, stage)
			if stage > 0 {
				require.Less(t, have.Held[0], one.Held[0])
			}
		}
	}
	require.InDeltaSlice(t, reported(t, 1, "-amp", "bf16").Losses, reported(t, 4, "-zero", "2", "-amp", "bf16", "-accumulate", "2").Losses, 3e-2)
	reported(t, 2, "-zero", "1", "-amp", "fp16")
}

// Three steps, a checkpoint, and three more are six, also with other ranks and another stage.
// planTries is how often a program is run until its plans serve: on a busy machine its few steps may be over before a placement is found.
const planTries = 5

// Each rank has a plan of its own: the first graph of a step begins one, and the numbers stay.
func TestRun_WithPlans(t *testing.T) {
	for _, args := range [][]string{{}, {"-accumulate", "2", "-zero", "3"}} {
		want := reported(t, 2, args...)
		require.Empty(t, want.Served)
		var planned report
		for range planTries {
			if planned = reported(t, 2, append(args, "-plan")...); min(planned.Served[0], planned.Served[1]) > max(planned.Deviations[0], planned.Deviations[1]) {
				break
			}
		}
		require.Equal(t, want.Losses, planned.Losses)
		require.Len(t, planned.Served, 2)
		for i, served := range planned.Served {
			require.Greater(t, served, planned.Deviations[i])
			require.GreaterOrEqual(t, planned.Reserved[i], planned.Peak[i])
		}
	}
}

func TestRun_GoesOnFromACheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	for _, from := range [][]string{{"2", "-zero", "1"}, {"4", "-zero", "3", "-amp", "fp16"}} {
		ranks := int(from[0][0] - '0')
		six := reported(t, ranks, from[1:]...)
		first := reported(t, ranks, append(from[1:], "-steps", "3", "-save", dir)...)
		rest := reported(t, ranks, append(from[1:], "-steps", "3", "-resume", dir)...)
		require.Equal(t, 3, rest.FirstStep)
		require.Equal(t, six.Losses, append(first.Losses, rest.Losses...))
	}
	one := reported(t, 1)
	reported(t, 2, "-zero", "3", "-steps", "3", "-save", dir)
	require.InDeltaSlice(t, one.Losses[3:4], reported(t, 1, "-steps", "1", "-resume", dir).Losses, 1e-4)
	require.InDeltaSlice(t, one.Losses[3:], reported(t, 4, "-zero", "2", "-steps", "3", "-resume", dir, "-save", dir).Losses, 1e-4)

	var out, stderr bytes.Buffer
	require.Equal(t, 1, run(append([]string{"-ranks", "2", "-resume", t.TempDir()}, small...), &out, &stderr))
	require.Contains(t, stderr.String(), "index.json")
}

func TestRun_PredictsWithoutTraining(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	held := map[int]uint64{}
	for _, ranks := range []int{64, 1024} {
		var out, stderr bytes.Buffer
		args := []string{"-device", "sim:80GiB", "-ranks", fmt.Sprint(ranks), "-zero", "3", "-batch", "1024", "-layers", "1", "-width", "256", "-json", file}
		require.Zero(t, run(args, &out, &stderr), "%s", &stderr)
		require.Contains(t, out.String(), "simulated")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var r report
		require.NoError(t, json.Unmarshal(text, &r))
		require.Equal(t, []int{0, ranks / 2, ranks - 1}, r.Listed)
		require.Len(t, r.Predicted, 3)
		require.Empty(t, r.Peak)
		held[ranks] = r.Held[0]
	}
	require.Less(t, held[1024], held[64])
}

func TestRun_TooSmallADeviceIsSaid(t *testing.T) {
	var out, stderr bytes.Buffer
	require.Equal(t, 1, run(append([]string{"-ranks", "2", "-device", "sim:1MiB"}, small...), &out, &stderr))
	require.Contains(t, stderr.String(), "out of memory")
}

func TestRun_WrongFlagsAreRefused(t *testing.T) {
	for text, args := range map[string][]string{
		"-batch is 16, must be a multiple of 3 ranks": {"-ranks", "3"},
		"-model is \"cnn\"":                           {"-model", "cnn"},
		"-amp is \"on\"":                              {"-amp", "on"},
		"-zero is 4":                                  {"-zero", "4"},
		"-backend is \"gloo\"":                        {"-backend", "gloo"},
		"must be a multiple of -heads":                {"-width", "30"},
		"-save and -resume are for devices":           {"-device", "sim:80GiB", "-save", "run"},
	} {
		var out, stderr bytes.Buffer
		require.Equal(t, 2, run(args, &out, &stderr), text)
		require.Contains(t, stderr.String(), text)
	}
}

// The same program under the launchers of Open MPI and MPICH, a process for each rank.
func TestRun_UnderMPI(t *testing.T) {
	for name, command := range map[string][]string{
		"Open MPI": {"mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", "2"},
		"MPICH":    {"mpiexec.hydra", "-n", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(command[0]); err != nil {
				if os.Getenv("CISTERN_TEST_MPI") == "require" {
					t.Fatalf("%s is not installed", command[0])
				}
				t.Skipf("SKIPPED: %s is not installed", command[0])
			}
			want := reported(t, 2, "-zero", "3")
			have := launch(t, command, "mpi", nil, "-zero", "3")
			require.InDeltaSlice(t, want.Losses, have.Losses, 1e-6)
			require.Equal(t, want.Peak, have.Peak)

			if testing.Short() {
				return // the emulated GPU is slow
			}
			driver := fakecuda.Build(t)
			have = launch(t, command, "nccl", []string{"LD_LIBRARY_PATH=" + filepath.Dir(driver), nccl.LibraryVariable + "=" + driver,
				"FAKECUDA_DEVICES=2", "FAKECUDA_PTX=1", "CISTERN_CUBLAS_LIBRARY=off"}, "-zero", "3", "-backend", "nccl", "-device", "cuda:0", "-steps", "3")
			require.InDeltaSlice(t, want.Losses[:3], have.Losses, 1e-3)
		})
	}
}

// launch runs the program on two ranks of a launcher's.
func launch(t *testing.T, command []string, backend string, environment []string, args ...string) report {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "figures.json")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	line := append(append(append([]string{}, command[1:]...), self), append(append(append([]string{}, small...), args...), "-json", file)...)
	c := exec.CommandContext(ctx, command[0], line...)
	c.Env = append(append(os.Environ(), programVariable+"=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_btl_vader_single_copy_mechanism=none"), environment...)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 1, strings.Count(string(out), "ranks by "+backend), "the first rank tells of all")
	return read(t, file, 2)
}

// Each process of a launcher would train all ranks by itself.
func TestRun_RefusesRanksUnderALauncher(t *testing.T) {
	t.Setenv("PMI_SIZE", "2")
	var out, stderr bytes.Buffer
	require.Equal(t, 1, run(append([]string{"-ranks", "4"}, small...), &out, &stderr))
	require.Contains(t, stderr.String(), "-ranks is 4")
	require.Contains(t, stderr.String(), "leave -ranks out, or the launcher")
	require.Empty(t, out.String())
}
