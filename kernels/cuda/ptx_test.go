package cuda_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/internal/ptx"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
)

// These tests run the committed PTX itself, on the interpreter of internal/fakecuda: what a GPU's driver compiles, with the assembly that
// the emulation of the sources does without. The interpreter also looks for races in shared memory.

const (
	everyOnPTX        = 601
	everyPTXBackwards = 907
)

func TestPTX_Conformance(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short only the run in the other order")
	}
	d, _ := onPTX(t)
	kerneltest.Run(t, d, usual(everyOnPTX, 401, -1)...)
}

func TestPTX_ConformanceWithWarpsAndBlocksBackwards(t *testing.T) {
	d, r := onPTX(t)
	r.Greedy(true)
	kerneltest.Run(t, d, usual(everyPTXBackwards, 1009, 1)...)
}

// usual thins cases out more than full tests do, to one type of each operation, and leaves the large ones to them: to the one with turn -1,
// for one type with kernels of its own on tensor cores and one without, since TestConformance has the same sizes of all. With -short, where few
// tests run, all types do.
func usual(full, every, turn int) []kerneltest.Option {
	switch {
	case fulltests.Enabled() && turn >= 0:
		return []kerneltest.Option{thinned(full), kerneltest.Small()}
	case fulltests.Enabled():
		return []kerneltest.Option{thinned(full), kerneltest.Small(dtype.Float32, dtype.Float16)}
	}
	opts := []kerneltest.Option{thinned(every), kerneltest.Small()}
	if turn >= 0 && !testing.Short() {
		opts = append(opts, kerneltest.OneType(turn))
	}
	return opts
}

// Also the kernels that no case of the tests above has come to: the interpreter knows each of their instructions, so that no new one
// slips in without a meaning here.
func TestPTX_TheInterpreterKnowsEachInstructionOfEachKernel(t *testing.T) {
	if !fulltests.Enabled() {
		t.Skip("reads all PTX: in full tests only")
	}
	l := fakecuda.Open(t, fakecuda.Build(t))
	images, err := ptx.Files("ptx")
	require.NoError(t, err)
	require.NotEmpty(t, images)
	for _, image := range images {
		text, err := ptx.ReadFile(image)
		require.NoError(t, err)
		require.Empty(t, l.UnknownPTX(string(text)), image)
	}
}

// What is added up is added in an order that the call alone fixes: no kernel adds atomically, of which the order would be another one in each
// run. What notes an index out of range takes its note by a comparison and swap.
func TestPTX_NothingIsAddedAtomically(t *testing.T) {
	images, err := ptx.Files("ptx")
	require.NoError(t, err)
	atomic, read := regexp.MustCompile(`(?m)^.*\b(?:atom|red)\.[\w.]+`), 0
	for _, image := range images {
		if name := filepath.Base(image); !fulltests.Enabled() && !strings.HasPrefix(name, "attention_") && !strings.HasPrefix(name, "conv_weight") {
			continue // reading all takes long
		}
		read++
		text, err := ptx.ReadFile(image)
		require.NoError(t, err)
		for _, line := range atomic.FindAllString(string(text), -1) {
			require.Contains(t, line, "atom.global.cas.b64", image)
		}
	}
	require.GreaterOrEqual(t, read, 3)
}
