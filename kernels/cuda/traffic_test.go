package cuda_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	caching "github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// The memory traffic of kernels, counted by the interpreter of their PTX: whether the accesses of a warp lie together, how
// often the data of a call is moved, whether banks of shared memory collide. These numbers are exact and the same on every machine;
// they say nothing of time, but a kernel that wastes any of them cannot be fast.

var writeTraffic = flag.Bool("write-traffic", false, "write traffic.md")

// work is one call and the least that it must move: its operands and its results, once.
type work struct {
	name  string
	bytes int
	run   func() error
	// What is allowed, where it is not the usual: sectors over the fewest possible, bytes moved over bytes, wavefronts over passes.
	scatter, again, banks float64
	mma                   float64 // instructions that are allowed for an mma; 0: as many as there are
	most                  float64 // mma that are allowed; 0: as many as there are
}

// traffic is what the kernels of one call did.
type traffic map[string]float64

func (t traffic) scatter() float64 { return ratio(t["sectors"], t["needed"]) }
func (t traffic) banks() float64   { return ratio(t["wavefronts"], t["passes"]) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}

// totals adds up what all kernels did so far, and counts their launches.
func totals(t *testing.T, r *cudatest.Rig) traffic {
	all := traffic{}
	for _, line := range r.Counts() {
		for _, pair := range strings.Fields(line)[1:] {
			name, value, _ := strings.Cut(pair, "=")
			n, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			all[name] += n
		}
	}
	return all
}

// bench makes tensors for works.
type bench struct {
	t   *testing.T
	e   tensor.Exec
	gen *tensor.Generator

	whole map[string]*tensor.Tensor // those that works have parts of
}

func (b *bench) of(dt tensor.DType, shape ...int) *tensor.Tensor {
	x, err := tensor.RandN(b.e, b.gen, tensor.Float32, shape...)
	return b.keep(b.keep(x, err).To(dt))
}

// keep releases a tensor at the end of the test.
func (b *bench) keep(x *tensor.Tensor, err error) *tensor.Tensor {
	b.t.Helper()
	require.NoError(b.t, err)
	b.t.Cleanup(x.Release)
	return x
}

func (b *bench) classes(n, of int) *tensor.Tensor {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i * 7919 % of)
	}
	return b.keep(tensor.FromSlice(b.e, v, n))
}

// released runs an operation and releases its results.
func released(ts ...*tensor.Tensor) {
	for _, x := range ts {
		if x != nil {
			x.Release()
		}
	}
}

func once(f func() (*tensor.Tensor, error)) func() error {
	return func() error {
		x, err := f()
		released(x)
		return err
	}
}

func TestTraffic_KernelsMoveWhatTheyMust(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	d, r := emulatedtest.NewPTX(t)
	r.Set("races", "0")
	r.Set("counts", "1")
	alloc, err := caching.New(d, caching.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	e, err := tensor.On(d, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	b := &bench{t: t, e: e.Owned(), gen: tensor.NewGenerator(1), whole: map[string]*tensor.Tensor{}}
	committed, err := os.ReadFile("traffic.md")
	require.NoError(t, err)
	lines := strings.SplitAfter(string(committed), "\n")
	head := strings.Count(trafficHead, "\n")
	var table strings.Builder
	table.WriteString(trafficHead)
	all := slices.Concat(b.elementwise(), b.rows(), b.products(), b.attentions(), b.convolutions())
	require.True(t, *writeTraffic || strings.HasPrefix(string(committed), trafficHead) && len(lines) == head+len(all)+1, "run go test ./kernels/cuda -run Traffic -write-traffic")
	for i, w := range all {
		if i%fulltests.Or(1, 7) != 0 && !*writeTraffic {
			continue
		}
		require.NoError(t, d.Synchronize(context.Background()))
		before := totals(t, r)
		require.NoError(t, w.run(), w.name)
		require.NoError(t, d.Synchronize(context.Background()))
		did := totals(t, r)
		for name := range did {
			did[name] -= before[name]
		}
		again := did["sectors"] * 32 / float64(w.bytes)
		line := fmt.Sprintf("| %s | %.0f | %.2f | %.2f | %s | %.1f | %s | %s |\n", w.name, did["launches"], did.scatter(), again, shared(did),
			did["instructions"]*32/float64(w.bytes)*16, percent(did["divergent"], did["instructions"]), products(did))
		assert.LessOrEqual(t, did.scatter(), max(w.scatter, 1.05), "%s: accesses of a warp do not lie together", w.name)
		assert.LessOrEqual(t, again, max(w.again, 1.1), "%s: data is moved more than once", w.name)
		if w.mma > 0 {
			require.Positive(t, did["products"], "%s: no tensor cores", w.name)
			assert.LessOrEqual(t, did["instructions"]/did["products"], w.mma, "%s: instructions for an mma", w.name)
		}
		if w.most > 0 {
			assert.LessOrEqual(t, did["products"], w.most, "%s: products of 16 by 8 by 16", w.name)
		}
		assert.LessOrEqual(t, did.banks(), max(w.banks, 1.05), "%s: banks of shared memory collide", w.name)
		if table.WriteString(line); !*writeTraffic {
			require.Equal(t, lines[head+i], line, "run go test ./kernels/cuda -run Traffic -write-traffic")
		}
	}
	if *writeTraffic {
		require.NoError(t, os.WriteFile("traffic.md", []byte(table.String()), 0o644))
	}
}

func shared(t traffic) string {
	if t["accesses"] == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", t.banks())
}

// products is the instructions for each mma, all of the call's.
func products(t traffic) string {
	if t["products"] == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", t["instructions"]/t["products"])
}

func percent(a, b float64) string { return fmt.Sprintf("%.2f %%", 100*ratio(a, b)) }

const trafficHead = `<!-- Code generated by go test ./kernels/cuda -run Traffic -write-traffic. DO NOT EDIT. -->

# Memory traffic of the kernels

Counted while the committed PTX ran on the interpreter of internal/fakecuda; exact, and the same on every computer. No time was
measured: see benchmarks/RESULTS.md for what was.

- kernels: launches of the call.
- sectors: sectors of 32 bytes that the requests of warps touch, over the fewest that could hold what they ask for. 1 is coalesced.
- moved: bytes of these sectors, over the bytes of the operands and results. What is read again may come from a cache.
- banks: wavefronts of shared memory, over those without bank conflicts.
- instructions: of warps, times their 32 lanes, for each 16 bytes of operands and results. PTX has about as many as machine code.
- parted: branches that part a warp, of all instructions.
- mma: instructions of warps for each mma, of which all kernels of the call are counted. 16 by 64 scores of heads of 64 are 64 mma in
  attention; 96 where its gradient has rows of queries, and 128 where it has rows of keys.

| call | kernels | sectors | moved | banks | instructions | parted | mma |
|---|---:|---:|---:|---:|---:|---:|---:|
`
