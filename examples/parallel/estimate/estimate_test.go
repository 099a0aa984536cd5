package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
)

// The errors of the table are those of a model with one number for each GPU, between 1.3 and 65 billion parameters.
func TestEstimate_IsNearWhatOthersHaveMeasured(t *testing.T) {
	for _, p := range measured {
		most := 0.25
		if p.fitted {
			most = 0.02
		}
		require.InEpsilon(t, p.seconds, p.estimate().Seconds(), most, "%d %s, %s", p.gpus, p.machine.name, p.model.name)
	}
}

func TestModel_HasTheParametersOfTheNetwork(t *testing.T) {
	for _, m := range ours {
		gpt, err := m.gpt()
		require.NoError(t, err)
		count := 0
		for _, n := range nn.NamedParameters(gpt) {
			count += n.Parameter.Len()
		}
		require.EqualValues(t, count, m.parameters(), m.name)
	}
}

// The paper's example: 7.5 billion parameters on 64 ranks take 120, 31.4, 16.6 and 1.9 GB (Rajbhandari et al., arXiv:1910.02054, figure 1).
func TestHeld_IsThatOfTheZeROPaper(t *testing.T) {
	m := model{layers: 36, width: 4096, heads: 32, seq: 1024, micro: 1}
	part := m.parameters() / 7.5e9
	for stage, gb := range []float64{120, 31.4, 16.6, 1.9} {
		if stage == 1 {
			// Gradients are kept in bfloat16 as in the paper, but those of the own part in float32, and the rest goes when it is reduced.
			continue
		}
		held, err := m.held(64, stage)
		require.NoError(t, err)
		extra := 0.0
		if stage >= 2 {
			extra = 2 * m.parameters() / 64 / 1e9 // gradients of the own part are in float32 here
		}
		require.InEpsilon(t, gb*part, float64(held.Total())/1e9-extra, 0.02, "stage %d", stage)
	}
}

func TestMachine_RingsSendWhatTheFormulaSays(t *testing.T) {
	g := machine{gpus: 8, inside: 100e9, outside: 50e9}
	const bytes = 1 << 40 // so that latencies count for nothing
	near := func(want float64, got time.Duration) { require.InEpsilon(t, want, got.Seconds(), 1e-3) }
	near(bytes*7/8/100e9, g.gather(8, bytes))
	near(bytes*63/64/50e9, g.gather(64, bytes))
	near(2*bytes*63/64/50e9, g.reduce(64, bytes))
	require.Zero(t, g.reduce(1, bytes))
	require.Less(t, g.reduce(1024, 1024), time.Millisecond, "a tree has few steps")
	require.Greater(t, g.gather(1024, 1024), 2*time.Millisecond, "a ring has 1,023")
}

// With a wire that takes no time a step is its products and the optimizer; with one that never ends it is the wire.
func TestStep_HidesWhatIsSentBehindProducts(t *testing.T) {
	m := &ours[2]
	fast, slow := h100, h100
	fast.inside, fast.outside = 1e18, 1e18
	slow.inside, slow.outside = 1e6, 1e6
	layer, head := m.flops()
	products := (4*float64(m.layers)*layer + 3*head) / (h100.products * h100.used)
	for stage := range 4 {
		c := m.step(&fast, 8, stage)
		own := m.parameters()
		if stage > 0 {
			own /= 8
		}
		require.InEpsilon(t, products+own*28/h100.memory, c.compute.Seconds(), 0.02, "stage %d", stage)
		c = m.step(&slow, 8, stage)
		require.InEpsilon(t, m.sent(8, stage)/1e6, c.compute.Seconds(), 0.02, "stage %d", stage)
	}
}

func TestRun_TellsOfOneModelAndRefusesOthers(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-params", "12 768 12", "-gpus", "16", "-micro", "2", "-seq", "1024"}, &out, &errs), errs.String())
	require.Contains(t, out.String(), "0.12 billion parameters")
	for _, params := range []string{"x", "12 768", "12 768 7", "0 8 8"} {
		errs.Reset()
		require.Equal(t, 1, run([]string{"-params", params}, &out, &errs))
		require.Contains(t, errs.String(), "-params is")
	}
}

// docs/parallel.md has these tables. go run ./examples/parallel/estimate writes them.
func TestTables_AreThoseOfTheDocuments(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../../docs/parallel.md"))
	require.NoError(t, err)
	var out, errs bytes.Buffer
	require.Zero(t, run(nil, &out, &errs), errs.String())
	for _, table := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n\n")) {
		require.Contains(t, string(text), string(table), "go run ./examples/parallel/estimate, and put it into docs/parallel.md")
	}
}
