package replay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

const capacity = 80 * device.GiB

func TestRun_EqualsPyTorchOnTheTestdata(t *testing.T) {
	require.GreaterOrEqual(t, replayAll(t, "testdata"), 13)
}

func TestRun_EqualsPyTorchOnAllTraces(t *testing.T) {
	dir := os.Getenv("CISTERN_TRACES")
	if dir == "" {
		t.Skip("SKIPPED: CISTERN_TRACES does not name a folder of traces, so only those of testdata were replayed")
	}
	require.Positive(t, replayAll(t, dir), "no expected files in %s", dir)
}

// replayAll compares every expected file of a folder and returns how many there are.
func replayAll(t *testing.T, dir string) int {
	files, err := filepath.Glob(filepath.Join(dir, "expected", "*.json.gz"))
	require.NoError(t, err)
	var traces sync.Map // file name to func() (*trace.Trace, error)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			e, err := OpenExpected(file)
			require.NoError(t, err)
			read, _ := traces.LoadOrStore(e.Trace, sync.OnceValues(func() (*trace.Trace, error) {
				return trace.Open(filepath.Join(dir, e.Trace))
			}))
			tr, err := read.(func() (*trace.Trace, error))()
			require.NoError(t, err)
			o, err := e.Options()
			require.NoError(t, err)
			r, err := Run(tr, o)
			require.NoError(t, err)
			requireEqual(t, e, r)
		})
	}
	return len(files)
}

func requireEqual(t *testing.T, e *Expected, r *Result) {
	t.Helper()
	differences, err := e.Differences(r)
	require.NoError(t, err)
	require.Empty(t, differences[:min(6, len(differences))])
}

func testTrace(t testing.TB, name string) *trace.Trace {
	t.Helper()
	tr, err := trace.Open(filepath.Join("testdata", name+".trace.gz"))
	require.NoError(t, err)
	return tr
}

func parse(t testing.TB, text string) *trace.Trace {
	t.Helper()
	tr, err := trace.Read("test", strings.NewReader(text))
	require.NoError(t, err)
	return tr
}

// The recorder counts, numbers and logs what passes through it. Over a simulated device that must give what the device
// itself counts and logs, and so the recorded numbers.
func TestRecorder_KeepsTheBooksOfASimulatedDevice(t *testing.T) {
	for _, name := range []string{"gpt_prefetch.default", "gpt_prefetch.tight", "gpt_prefetch.expandable", "gpt_prefetch.combo",
		"gpt_prefetch.expandable_tight", "mlp_adam.oom"} {
		t.Run(name, func(t *testing.T) {
			e, err := OpenExpected(filepath.Join("testdata", "expected", name+".json.gz"))
			require.NoError(t, err)
			o, err := e.Options()
			require.NoError(t, err)
			tr := testTrace(t, strings.TrimSuffix(e.Trace, ".trace.gz"))
			dev := sim.New(o.Capacity, sim.ManualStreams())
			r, err := o.runOn(newRecorder(dev, newBooks(), func(number uint64) (device.Stream, error) {
				return dev.Stream(device.StreamID(number)), nil
			}), tr)
			require.NoError(t, err)
			requireEqual(t, e, r)
		})
	}
}

// Real addresses fall instead of rising, and that must not show: blocks are chosen by the age of their segments.
func TestRun_OnTheHostMakesTheDecisionsOfTheSimulation(t *testing.T) {
	for _, c := range []string{"", "expandable_segments:True"} {
		o := Options{Capacity: 64 * device.MiB, Config: config(t, c)}
		tr := testTrace(t, "mlp_adam")
		simulated, err := Run(tr, o)
		require.NoError(t, err)
		o.Device = device.Host
		real, err := Run(tr, o)
		require.NoError(t, err)
		require.Equal(t, device.Host, real.ID.Kind)
		require.Equal(t, simulated.Hash, real.Hash)
		require.Equal(t, simulated.Driver, real.Driver)
		require.Equal(t, simulated.Stats, real.Stats)
		require.Equal(t, simulated.Series, real.Series)
	}
}

// On the host events complete when they do; what is counted without regard to time is the same.
func TestRun_OnTheHostRecordsTheTracesStreams(t *testing.T) {
	o := Options{Capacity: capacity}
	tr := testTrace(t, "gpt_prefetch")
	simulated, err := Run(tr, o)
	require.NoError(t, err)
	o.Device = device.Host
	real, err := Run(tr, o)
	require.NoError(t, err)
	require.EqualValues(t, 550, real.Driver.EventRecord)
	require.Positive(t, real.Driver.EventCreate)
	require.Positive(t, real.Driver.EventQuery)
	require.Equal(t, simulated.Stats.Allocation, real.Stats.Allocation)
	require.Equal(t, simulated.Requested, real.Requested)
	require.Equal(t, simulated.LivePeak, real.LivePeak)
}

// Streams get the trace's numbers although the host numbers its own in the order in which they are made.
func TestRun_OnTheHostNumbersStreamsAsTheTraceDoes(t *testing.T) {
	tr := parse(t, "a 0 3000000 9\na 1 3000000 4\ns 0 4\nc 9\nc 7\nf 0\nf 1\ne\n")
	for _, kind := range []device.Kind{device.Sim, device.Host} {
		var ids []device.StreamID
		_, err := Run(tr, Options{Capacity: capacity, Device: kind, After: func(a memory.Allocator, event int) error {
			if event == 2 {
				for _, s := range a.(*memory.Caching).Snapshot().Segments {
					ids = append(ids, s.Stream)
				}
			}
			return nil
		}})
		require.NoError(t, err)
		require.ElementsMatch(t, []device.StreamID{4, 9}, ids)
	}
}

func TestRun_OnTheHostTakesTheMachinesMemoryAsCapacity(t *testing.T) {
	r, err := Run(parse(t, "a 0 512 0\nf 0\n"), Options{Device: device.Host})
	require.NoError(t, err)
	require.Greater(t, r.Config.Capacity, 64*device.MiB)
}

func TestRun_RefusesOtherDevices(t *testing.T) {
	_, err := Run(parse(t, "e\n"), Options{Device: device.CUDA})
	require.EqualError(t, err, "no replay on cuda devices")
	_, _, err = Time(parse(t, "a 0 1 0\n"), Options{Device: device.CUDA})
	require.Error(t, err)
}

func TestRun_DirectAsksTheDriverForEachRequest(t *testing.T) {
	for _, kind := range []device.Kind{device.Sim, device.Host} {
		r, err := Run(testTrace(t, "mlp_adam"), Options{Capacity: capacity, Direct: true, Device: kind})
		require.NoError(t, err)
		require.EqualValues(t, 1538, r.Driver.Malloc)
		require.EqualValues(t, 1538, r.Driver.Free)
		require.Equal(t, r.Stats.AllocatedBytes, r.Stats.ReservedBytes)
		require.EqualValues(t, r.Requested.Peak, r.Stats.AllocatedBytes.All.Peak)
		require.InDelta(t, 1, r.PeakFragmentation, 0)
		require.Equal(t, "Cistern memory.Direct", r.Allocator)
	}
}

func TestRun_CountsRequestsWithoutMemoryAndGoesOn(t *testing.T) {
	r, err := Run(parse(t, "m x\na 0 3000000 0\na 1 90000000 0\ns 1 1\nf 1\na 2 1 0\nf 0\n"), Options{Capacity: 32 * device.MiB})
	require.NoError(t, err)
	require.Equal(t, [][3]uint64{{2, 1, 90000000}}, r.OOMs)
	require.Equal(t, 6, r.Events)
	require.Equal(t, 2, r.Frees)
	require.Equal(t, 1, r.Records)
	require.Equal(t, 2, r.LivePeak)
	require.EqualValues(t, 1, r.Stats.NumOOMs)
	require.Equal(t, Peaked{Current: 1, Peak: 3000001}, r.Requested)
}

func TestRun_BlocksThatTheTraceKeepsAreNoLeak(t *testing.T) {
	for _, direct := range []bool{false, true} {
		r, err := Run(parse(t, "a 0 512 0\na 1 512 0\n"), Options{Capacity: capacity, Direct: direct})
		require.NoError(t, err)
		require.EqualValues(t, 2, r.Stats.Allocation.All.Current)
		require.Equal(t, 2, r.LivePeak)
	}
}

func TestRun_NamesTheLineThatFailed(t *testing.T) {
	broken := errors.New("not now")
	_, err := Run(parse(t, "# x\na 0 512 0\nm y\nf 0\n"), Options{Capacity: capacity, After: func(a memory.Allocator, event int) error {
		require.NotZero(t, a.Stats().ReservedBytes.All.Current)
		if event == 2 {
			return broken
		}
		return nil
	}})
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, `trace test: line 4: "f 0": not now`)
}

func TestRun_RefusesWrongSettings(t *testing.T) {
	fraction := 1.5
	var wrong *memory.ConfigError
	_, err := Run(parse(t, "e\n"), Options{Capacity: capacity, Fraction: &fraction})
	require.ErrorAs(t, err, &wrong)
	_, _, err = Time(parse(t, "a 0 1 0\n"), Options{Capacity: capacity, Fraction: &fraction})
	require.ErrorAs(t, err, &wrong)
}

func config(t testing.TB, text string) memory.Config {
	t.Helper()
	c, err := memory.ParseConfig(text)
	require.NoError(t, err)
	return c
}
