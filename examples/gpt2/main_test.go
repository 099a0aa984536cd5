package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// book is a text that is learned in a moment.
func book(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "book")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("The dog and the cat watched the rain. ", 20)), 0o600))
	return file
}

// figures runs the program and returns its JSON.
func figures(t *testing.T, args ...string) (r report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(append([]string{"-model", folder, "-json", file}, args...), &stdout, &stderr), "%s", &stderr)
	require.Contains(t, stdout.String(), "| Allocated memory ")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, r.Leaf, r.AfterRelease, "only parameters and optimizer state are held")
	require.NotZero(t, r.Leaf)
	require.Zero(t, r.AtEnd)
	return r
}

func TestRun_WritesGreedilyOrDraws(t *testing.T) {
	want := readGolden(t)
	greedy := figures(t, "-prompt", want.Prompt)
	require.True(t, strings.HasPrefix(greedy.Text, want.Prompt))
	require.Equal(t, 40, greedy.Tokens)
	require.Equal(t, greedy.Text, figures(t, "-prompt", want.Prompt, "-temperature", "1", "-top-k", "1").Text, "there is one to draw from")
	drawn := figures(t, "-temperature", "1", "-seed", "7")
	require.Equal(t, drawn.Text, figures(t, "-temperature", "1", "-seed", "7").Text)
	require.NotEqual(t, drawn.Text, figures(t, "-temperature", "1", "-seed", "8").Text)
	require.NotEmpty(t, figures(t, "-prompt", "", "-tokens", "3").Text, "behind the end of a text")
}

func TestRun_TrainsAdapters_AndWritesThemAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "adapters.safetensors")
	plain := figures(t)
	args := []string{"-lora", file, "-rank", "4", "-alpha", "8"}
	trained := figures(t, append(args, "-text", book(t), "-steps", "60", "-seq", "16", "-lr", "1e-2")...)
	require.Less(t, trained.LastLoss, trained.FirstLoss-1)
	require.Equal(t, 2*4*(32+3*32), trained.Trained, "two adapters of rank 4 beside [96, 32]")
	require.Equal(t, plain.Parameters+trained.Trained, trained.Parameters)
	require.Equal(t, trained.MallocsAfterTwo, trained.DriverMallocs, "the driver is not asked after the second step")
	require.NotEqual(t, plain.Text, trained.Text)

	f, err := safetensors.Open(file)
	require.NoError(t, err)
	var names []string
	for _, info := range f.Tensors() {
		names = append(names, info.Name)
	}
	require.NoError(t, f.Close())
	require.Equal(t, []string{"h.0.attn.c_attn.lora_A.weight", "h.0.attn.c_attn.lora_B.weight", "h.1.attn.c_attn.lora_A.weight", "h.1.attn.c_attn.lora_B.weight"}, names)
	require.Equal(t, "4", f.Metadata()[rankKey])

	again := figures(t, "-lora", file)
	require.Equal(t, trained.Text, again.Text)
	require.Zero(t, again.Trained)
	require.Equal(t, plain.Text, figures(t).Text, "the model is as it was")
}

func TestRun_TakesTheSameMemoryOnASimulatedDevice(t *testing.T) {
	args := []string{"-text", book(t), "-steps", "3", "-seq", "16", "-tokens", "2"}
	real := figures(t, append(args, "-lora", filepath.Join(t.TempDir(), "a"))...)
	simulated := figures(t, append(args, "-lora", filepath.Join(t.TempDir(), "b"), "-device", "sim:80GiB")...)
	require.Equal(t, real.PeakAllocated, simulated.PeakAllocated)
	require.Equal(t, real.Leaf, simulated.Leaf)
	require.Empty(t, simulated.Text)
}

func TestRun_EndsWithOneClearErrorAndNoLeak(t *testing.T) {
	dir := t.TempDir()
	short, broken := filepath.Join(dir, "short"), filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(short, []byte("a"), 0o600))
	require.NoError(t, os.WriteFile(broken, []byte("no adapters"), 0o600))
	adapters := filepath.Join(dir, "adapters")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no model":       {[]string{"-model", dir}, 1, "config.json"},
		"no text":        {[]string{"-text", filepath.Join(dir, "none"), "-lora", adapters}, 1, "none"},
		"short text":     {[]string{"-text", short, "-lora", adapters, "-seq", "16"}, 1, "1 tokens"},
		"long sequences": {[]string{"-text", book(t), "-lora", adapters, "-seq", "33"}, 1, "-seq is 33"},
		"no adapters":    {[]string{"-lora", filepath.Join(dir, "none")}, 1, "none"},
		"broken":         {[]string{"-lora", broken}, 1, "not a sound safetensors file"},
		"a model":        {[]string{"-lora", filepath.Join(folder, "model.safetensors")}, 1, "no file of adapters"},
		"too small":      {[]string{"-device", "sim:64KiB"}, 1, "out of memory"},
		"device":         {[]string{"-device", "tpu"}, 2, `"tpu"`},
		"type":           {[]string{"-dtype", "f8"}, 2, `"f8"`},
		"temperature":    {[]string{"-temperature", "-1"}, 2, "-temperature is -1"},
		"nowhere":        {[]string{"-text", short}, 2, "-lora names"},
		"half":           {[]string{"-text", short, "-lora", adapters, "-dtype", "fp16"}, 2, "in f32"},
		"rank":           {[]string{"-rank", "0"}, 2, "-rank is 0"},
		"absurd rank":    {[]string{"-rank", "9223372036854775807"}, 2, "-rank is 9223372036854775807, must be 1 to 65536"},
		"absurd batch":   {[]string{"-batch", "9223372036854775807"}, 2, "-batch is 9223372036854775807, must be"},
		"many tokens":    {[]string{"-batch", "65536", "-seq", "1024"}, 2, "their product must be at most"},
		"absurd text":    {[]string{"-tokens", "9223372036854775807"}, 2, "-tokens is 9223372036854775807, must be"},
		"no number":      {[]string{"-alpha", "NaN"}, 2, "-alpha is NaN, must be finite"},
		"argument":       {[]string{"what"}, 2, `"what"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.code, run(append([]string{"-model", folder}, c.args...), &stdout, &stderr), "%s", &stderr)
			require.Contains(t, stderr.String(), c.want)
			require.NotContains(t, stderr.String(), "still in use")
		})
	}
	dev, err := device.Open("host")
	require.NoError(t, err)
	_, bytes := dev.(*host.Device).Live()
	require.Zero(t, bytes, "the host device holds nothing any more")
}

func TestRun_Interrupted_SavesAndTellsWhatItHas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "adapters")
	text := sessiontest.Interrupt(t, run, "-model", folder, "-text", book(t), "-lora", file, "-steps", "1000000", "-seq", "8")
	require.Contains(t, text, "| Allocated memory ")
	require.Contains(t, text, "training loss")
	figures(t, "-lora", file) // it is whole
}

func TestRun_OutputsThatCannotBeWritten_AreRefusedFirst(t *testing.T) {
	sessiontest.Outputs(t, run, []string{"json", "lora"}, "-model", folder, "-text", book(t), "-lora", filepath.Join(t.TempDir(), "x"), "-seq", "8", "-steps", "1")
}

func TestRun_ReportsWhereItsMemoryGoes(t *testing.T) {
	sessiontest.MemoryReport(t, run, 0, "-model", folder, "-lora", filepath.Join(t.TempDir(), "adapters.safetensors"), "-rank", "4", "-text", book(t), "-steps", "2", "-seq", "16")
}

// The length of sequences that nobody has asked for is one that the model takes; one that somebody has is refused.
func TestRun_TrainsWithSequencesThatTheModelTakes(t *testing.T) {
	args := []string{"-model", folder, "-text", book(t), "-lora", filepath.Join(t.TempDir(), "adapters.safetensors"), "-steps", "1", "-tokens", "1"}
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(args, &stdout, &stderr), "%s", &stderr)
	require.Equal(t, 1, run(append(args, "-seq", "64"), &stdout, &stderr))
	require.Contains(t, stderr.String(), "-seq is 64, and the model looks at 32 tokens")
}

func TestRun_PlanChangesMemoryNotNumbers(t *testing.T) {
	sessiontest.Planned(t, run, "-model", folder, "-lora", filepath.Join(t.TempDir(), "adapters.safetensors"), "-text", book(t), "-steps", "8", "-seq", "16")
}
