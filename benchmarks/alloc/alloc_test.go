package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

const testdata = "../internal/replay/testdata"

// traces makes a folder with the traces that the program wants, small ones.
func traces(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testdata, name+".trace.gz"))
	require.NoError(t, err)
	dir := t.TempDir()
	for _, want := range []string{"bench_mix64", "gpt_fixed"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, want+".trace.gz"), raw, 0o600))
	}
	return dir
}

func call(args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = run(args, &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestRun_MeasuresEveryAllocatorUnderEveryWorkload(t *testing.T) {
	code, out, errOut := call("-traces", traces(t, "mlp_adam"), "-runs", "2", "-duration", "1ms", "-holes", "50", "-json")
	require.Empty(t, errOut)
	require.Zero(t, code)
	var got report
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, 2, got.Runs)
	require.NotEmpty(t, got.Machine.CPU)
	require.Positive(t, got.Machine.Cores)
	require.NotEmpty(t, got.Machine.Commit)
	var cells []string
	for _, r := range got.Results {
		cells = append(cells, r.Workload+" "+r.Subject)
		require.Len(t, r.Runs, 2)
		require.Positive(t, r.NsPerPair)
		require.Equal(t, r.Subject == "naive (mmap)", r.DriverBytes == 0)
	}
	require.Len(t, cells, 7*5)
	require.Equal(t, []string{"fixed 4KiB caching", "fixed 4KiB planned", "fixed 4KiB with history", "fixed 4KiB mutex+map", "fixed 4KiB naive (mmap)"}, cells[:5])
	require.Equal(t, "50 holes caching", cells[15])
	require.Equal(t, 2, got.Results[34].Threads)
}

func TestRun_WritesATable(t *testing.T) {
	code, out, errOut := call("-runs", "1", "-duration", "1ms", "-holes", "5")
	require.Empty(t, errOut)
	require.Zero(t, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 7)
	require.Contains(t, lines[0], "GOMAXPROCS")
	require.Regexp(t, `workload +threads +caching +planned +with history +mutex\+map +naive \(mmap\) +planned / caching`, lines[3])
	require.Regexp(t, `fixed 4KiB +1 +\d+ \(\d+-\d+\) +\d+ .* +2MiB : .*4KiB`, lines[4])
	require.Regexp(t, `5 holes +1 `, lines[5])
	require.Regexp(t, `fixed 4KiB +2 `, lines[6])
}

func TestRun_ReportsWrongFlagsAndMissingTraces(t *testing.T) {
	for _, args := range [][]string{{"-what"}, {"-runs", "0"}, {"-duration", "-1s"}, {"-holes", "0"}, {"more"}} {
		code, out, errOut := call(args...)
		require.Equal(t, 2, code)
		require.Empty(t, out)
		require.NotEmpty(t, errOut)
	}
	code, _, errOut := call("-traces", t.TempDir())
	require.Equal(t, 1, code)
	require.Contains(t, errOut, "bench_mix64.trace.gz")
	code, _, errOut = call("-traces", traces(t, "gpt_prefetch"))
	require.Equal(t, 1, code)
	require.Contains(t, errOut, "more than allocations and frees on one stream")
	code, _, errOut = call("-h")
	require.Zero(t, code)
	require.Contains(t, errOut, "-duration")
}

func TestRun_ReportsThatTheOutputCannotBeWritten(t *testing.T) {
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	var errOut bytes.Buffer
	require.Equal(t, 1, run([]string{"-runs", "1", "-duration", "1us", "-holes", "1"}, w, &errOut))
	require.Contains(t, errOut.String(), io.ErrClosedPipe.Error())
}

func TestWorkloads_FreeWhatTheyAllocate(t *testing.T) {
	all, err := allWorkloads(traces(t, "mlp_adam"), 100)
	require.NoError(t, err)
	require.Len(t, all, 7)
	for _, w := range all {
		live, allocs := map[int32]bool{}, 0
		for _, op := range w.ops {
			require.Less(t, int(op.Slot), w.slots)
			require.Equal(t, op.Kind == trace.Free, live[op.Slot], "%s: slot %d", w.name, op.Slot)
			if live[op.Slot] = op.Kind == trace.Alloc; live[op.Slot] {
				require.Positive(t, op.Bytes)
				allocs++
			} else {
				delete(live, op.Slot)
			}
		}
		require.Empty(t, live)
		require.Equal(t, w.pairs, allocs)
	}
}

// The holes workload must find its holes cached, and take nothing from the driver, or it would measure something else. A few
// holes are larger than asked for: those at the end of a segment, where the rest is too little to be split off.
func TestHoles_LieCachedInManySizes(t *testing.T) {
	d := &freeDriver{}
	a, err := memory.New(d, memory.Config{})
	require.NoError(t, err)
	w := manyHoles(300)
	i, err := start(w, &bench[memory.Block]{pool: a, streams: freeStreams(1), reserved: d.bytes, closePool: a.Close})
	require.NoError(t, err)
	taken := i.driverBytes()
	sizes := map[uint64]bool{}
	for _, s := range a.Snapshot().Segments {
		for _, b := range s.Blocks {
			if b.State == memory.Inactive {
				sizes[b.Size] = true
			}
		}
	}
	found := 0
	for _, size := range w.holes {
		if sizes[size] {
			found++
		}
	}
	require.Greater(t, found, 270)
	_, err = i.run(3)
	require.NoError(t, err)
	require.Equal(t, taken, i.driverBytes())
	require.NoError(t, i.close())
}

func TestExactMap_GivesBackOnlyTheSameSizeAndStream(t *testing.T) {
	m := newExactMap(&freeDriver{})
	streams := freeStreams(2)
	alloc := func(bytes uint64, stream int) mapBlock {
		b, err := m.Alloc(bytes, streams[stream])
		require.NoError(t, err)
		return b
	}
	a := alloc(1000, 0)
	require.NoError(t, m.Free(a))
	require.NotEqual(t, a.ptr, alloc(1000, 1).ptr)
	require.NotEqual(t, a.ptr, alloc(512, 0).ptr)
	require.Equal(t, a.ptr, alloc(513, 0).ptr)
	require.NotEqual(t, a.ptr, alloc(1000, 0).ptr)
}

func TestFreeDriver_GivesAddressesThatDoNotOverlap(t *testing.T) {
	d := &freeDriver{}
	end := device.Ptr(0)
	for _, n := range []uint64{1, 2 << 20, 2<<20 + 1, 20 << 20} {
		p, err := d.Malloc(n)
		require.NoError(t, err)
		require.GreaterOrEqual(t, p, end)
		require.NotZero(t, p)
		require.Zero(t, p%(2<<20))
		end = p.Add(n)
	}
	require.EqualValues(t, 24<<20+2, d.bytes())
}

// failing refuses all but the first allocations.
type failing struct{ left atomic.Int32 }

var errRefused = errors.New("refused")

func newFailing(left int32) *failing {
	f := &failing{}
	f.left.Store(left)
	return f
}

func (f *failing) Alloc(uint64, device.Stream) (int, error) {
	if f.left.Add(-1) < 0 {
		return 0, errRefused
	}
	return 1, nil
}

func (f *failing) Free(int) error { return nil }

func TestStart_ReportsFailuresAndClosesThePool(t *testing.T) {
	for _, left := range []int32{0, 1, 3, 4} {
		for _, threads := range []int{1, 2} {
			closed := 0
			w := manyHoles(2)
			_, err := start(w, &bench[int]{pool: newFailing(left), streams: freeStreams(threads), closePool: func() error {
				closed++
				return nil
			}})
			require.ErrorIs(t, err, errRefused)
			require.Equal(t, 1, closed)
		}
	}
}

func TestMeasureAll_NamesWhatFailed(t *testing.T) {
	later := newFailing(128)
	_, err := measureAll([]workload{fixed(512)}, []subject{{"weak", func(w workload) (instance, error) {
		return start(w, &bench[int]{pool: later, streams: freeStreams(1), closePool: func() error { return nil }})
	}}}, 1, time.Millisecond)
	require.ErrorIs(t, err, errRefused)
	require.ErrorContains(t, err, "fixed 512B, weak: ")
}

func TestMedian_IsTheMiddle(t *testing.T) {
	require.Equal(t, 2.0, median([]float64{9, 1, 2}))
	require.Equal(t, 3.0, median([]float64{4, 9, 1, 2}))
}
