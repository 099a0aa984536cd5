package kernels_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// knownHoles reads testdata/known_holes.txt.
func knownHoles(t *testing.T) map[string]bool {
	f, err := os.Open("testdata/known_holes.txt")
	require.NoError(t, err)
	defer f.Close()
	known := map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "#") {
			known[line] = true
		}
	}
	return known
}

// kinds are the kinds of devices that have any kernel.
func kinds() []device.Kind {
	var list []device.Kind
	for _, k := range []device.Kind{device.Host, device.CUDA, device.Sim} {
		if _, ok := kernels.Lookup(k, op.Copy, dtype.Float32); ok {
			list = append(list, k)
		}
	}
	return list
}

func TestHoles_AreKnown(t *testing.T) {
	known := knownHoles(t)
	total := 0
	for _, kind := range kinds() {
		for id := op.Invalid + 1; id.Valid(); id++ {
			for _, d := range id.Types() {
				total++
				hole := fmt.Sprintf("%s %s %s", kind, id, d)
				if _, ok := kernels.Lookup(kind, id, d); ok {
					require.False(t, known[hole], "%s is no hole: strike it from testdata/known_holes.txt", hole)
					continue
				}
				t.Log("hole:", hole)
				if !known[hole] {
					t.Errorf("no kernel for %s of %s on %s devices: write it, or name it in testdata/known_holes.txt", id, d, kind)
				}
				delete(known, hole)
			}
		}
	}
	require.Empty(t, known, "lines of testdata/known_holes.txt that name nothing the specification asks for")
	t.Logf("%d kernels asked for on %v", total, kinds())
}

func TestLookup_RefusesWhatTheSpecificationDoesNotAskFor(t *testing.T) {
	for _, kind := range kinds() {
		for id := op.Invalid + 1; id.Valid(); id++ {
			wanted := map[dtype.DType]bool{}
			for _, d := range id.Types() {
				wanted[d] = true
			}
			for _, d := range dtype.All() {
				_, ok := kernels.Lookup(kind, id, d)
				require.False(t, ok && !wanted[d], "%s of %s on %s", id, d, kind)
			}
		}
	}
	_, ok := kernels.Lookup(device.Host, op.Invalid, dtype.Float32)
	require.False(t, ok)
	_, ok = kernels.Lookup(device.Host, op.ID(op.Count), dtype.Float32)
	require.False(t, ok)
	_, ok = kernels.Lookup(device.Host, op.Add, dtype.DType(200))
	require.False(t, ok)
	_, ok = kernels.Lookup(device.Kind(77), op.Add, dtype.Float32)
	require.False(t, ok)
}
