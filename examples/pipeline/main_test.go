package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/stepplan"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
)

func trained(t *testing.T, args ...string) (r report, said string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var out, errs bytes.Buffer
	require.Zero(t, run(append(args, "-json", file, "-steps", "12", "-width", "32"), &out, &errs), "%s", &errs)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	return r, out.String()
}

func TestPipeline_LearnsTheSameOnAnyNumberOfDevices(t *testing.T) {
	one, _ := trained(t, "-devices", "host:256MiB")
	require.Less(t, one.Losses[11], one.Losses[0])
	for n := 2; n <= 4; n++ {
		devices := strings.TrimSuffix(strings.Repeat("host:256MiB,", n), ",")
		several, said := trained(t, "-devices", devices)
		require.Equal(t, one.Losses, several.Losses)
		require.Contains(t, said, fmt.Sprintf("%d devices, batches of 64 in 4 parts: loss ", n))
		var held uint64
		for i := range n {
			held += several.Held[i]
			require.Less(t, several.Peak[i], one.Peak[0])
		}
		require.Equal(t, one.Held[0], held)
		simulated, said := trained(t, "-devices", strings.ReplaceAll(devices, "host:256MiB", "sim:256MiB"))
		require.Equal(t, several.Peak, simulated.Peak)
		require.Empty(t, simulated.Losses)
		require.NotContains(t, said, "loss")
	}
	whole, _ := trained(t, "-devices", "host:256MiB", "-parts", "1")
	for i, loss := range whole.Losses {
		require.InDelta(t, loss, one.Losses[i], 1e-4)
	}
}

// planTries is how often a program is run until its plans serve: on a busy machine its few steps may be over before a placement is found.
const planTries = 5

// Each device has a plan of its own, and the numbers stay.
func TestPipeline_WithPlans(t *testing.T) {
	want, said := trained(t)
	require.NotContains(t, said, "plan, ")
	var planned report
	for range planTries {
		if planned, said = trained(t, "-plan"); slices.IndexFunc(planned.Plans, func(p *stepplan.Figures) bool { return p.Served == 0 }) < 0 {
			break
		}
	}
	require.Equal(t, want.Losses, planned.Losses)
	require.Equal(t, want.Held, planned.Held)
	require.Len(t, planned.Plans, 2)
	for _, p := range planned.Plans {
		require.Equal(t, 12, p.Steps)
		require.Positive(t, p.Served)
	}
	require.Contains(t, said, "plan, ")
}

func TestPipeline_OnSeveralGPUs(t *testing.T) {
	want, _ := trained(t, "-devices", "host:256MiB")
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			rig := emulatedtest.Load(t, cudatest.New(t, n))
			next := 0
			o := options{Parts: 4, Batch: 64, Steps: 3, Width: 32, Layers: 4, LR: 1e-3, Seed: 1, session: func(string) (*session.Session, error) {
				next++
				return session.On(rig.Devices[next-1], 1)
			}}
			for i := range n {
				o.Devices = append(o.Devices, fmt.Sprintf("cuda:%d", i))
			}
			o.json = filepath.Join(t.TempDir(), "figures.json")
			require.NoError(t, o.train(io.Discard, io.Discard))
			require.Equal(t, 3*4*2*(n-1), rig.Calls()["cuMemcpyPeerAsync"], "each part goes there and back")
			text, err := os.ReadFile(o.json)
			require.NoError(t, err)
			var r report
			require.NoError(t, json.Unmarshal(text, &r))
			require.InDeltaSlice(t, want.Losses[:3], r.Losses, 1e-5)
		})
	}
}

func TestPipeline_RefusesFlags(t *testing.T) {
	for flags, says := range map[string]string{
		"-batch 10":                    "-batch is 10, must be a multiple of -parts, which is 4",
		"-layers 1":                    "-devices has 2, more than -layers, which is 1",
		"-devices host,host":           "-devices names host twice, as host and as host",
		"-devices host:1GiB,sim:1GiB":  "-devices has host:1GiB and sim:1GiB, of which only one computes",
		"-devices host:1GiB,elsewhere": "elsewhere",
		"-devices host:1GiB,":          "device",
	} {
		var errs bytes.Buffer
		require.NotZero(t, run(strings.Fields(flags), io.Discard, &errs), flags)
		require.Contains(t, errs.String(), says)
	}
}
