package timeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime/trace"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/timeline"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	_ "github.com/cistern-ml/cistern/device/host"
	_ "github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// opened is a device that ends with the test.
func opened(t *testing.T, name string) device.Device {
	t.Helper()
	dev, err := device.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	})
	return dev
}

// train takes some steps with a small model.
func train(t *testing.T, dev device.Device, steps int) {
	t.Helper()
	model := nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
	require.NoError(t, model.To(dev, nn.Seed(1)))
	defer model.Release()
	opt := optim.AdamW(model.Parameters())
	defer opt.Release()
	for range steps {
		step(t, dev, model, opt)
	}
}

func step(t *testing.T, dev device.Device, model nn.Layer, opt optim.Optimizer) {
	defer timeline.Region("training step")()
	g := autograd.NewGraph(dev)
	defer g.Release()
	require.NoError(t, model.Forward(g.RandN(tensor.Float32, 32, 64)).Mean(nil, false).Backward())
	require.NoError(t, opt.Step())
	opt.ZeroGrad()
}

// event is one of a trace, as any reader sees it.
type event struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat"`
	Ph   string         `json:"ph"`
	TS   *float64       `json:"ts"`
	Dur  *float64       `json:"dur"`
	PID  *int           `json:"pid"`
	TID  *int           `json:"tid"`
	Args map[string]any `json:"args"`
}

// written is the trace, which must be one that viewers can read: phases that they know, with all that these need, and spans of a row that
// are one after the other or one inside the other.
func written(t *testing.T, tl *timeline.Timeline) []event {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, tl.WriteTrace(&b))
	var file struct {
		DisplayTimeUnit string         `json:"displayTimeUnit"`
		OtherData       map[string]any `json:"otherData"`
		TraceEvents     []event        `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &file))
	require.Equal(t, "ms", file.DisplayTimeUnit)
	require.EqualValues(t, 0, file.OtherData["dropped"])
	rows := map[[2]int][]event{}
	for _, e := range file.TraceEvents {
		require.NotNil(t, e.PID)
		require.NotNil(t, e.TID)
		require.NotEmpty(t, e.Name)
		if e.Ph != "M" {
			require.NotNil(t, e.TS)
		}
		switch e.Ph {
		case "X":
			require.NotNil(t, e.Dur)
			require.GreaterOrEqual(t, *e.Dur, 0.0)
			require.GreaterOrEqual(t, *e.TS, 0.0)
			require.NotZero(t, *e.TID, "row 0 is the process itself")
			rows[[2]int{*e.PID, *e.TID}] = append(rows[[2]int{*e.PID, *e.TID}], e)
		case "C":
			require.GreaterOrEqual(t, e.Args["bytes"], 0.0)
		case "M":
			require.Contains(t, []string{"process_name", "process_sort_index", "thread_name", "thread_sort_index"}, e.Name)
		default:
			t.Fatalf("phase %q", e.Ph)
		}
	}
	for row, spans := range rows {
		requireNested(t, row, spans)
	}
	return file.TraceEvents
}

func requireNested(t *testing.T, row [2]int, spans []event) {
	t.Helper()
	const rounding = 1e-6 // µs
	var ends []float64
	for _, s := range spans { // in order of time
		for len(ends) > 0 && ends[len(ends)-1] <= *s.TS+rounding {
			ends = ends[:len(ends)-1]
		}
		end := *s.TS + *s.Dur
		if len(ends) > 0 {
			require.LessOrEqual(t, end, ends[len(ends)-1]+rounding, "%v: %s reaches over the end of what it is in", row, s.Name)
		}
		ends = append(ends, end)
	}
}

func named(events []event, ph, name string) (list []event) {
	for _, e := range events {
		if e.Ph == ph && e.Name == name {
			list = append(list, e)
		}
	}
	return list
}

func TestWriteTrace_HasStepsModulesOperationsAndMemory(t *testing.T) {
	for _, name := range []string{"host:1GiB", "sim:1GiB"} {
		dev := opened(t, name)
		tl, err := timeline.Start()
		require.NoError(t, err)
		train(t, dev, 3)
		tl.Stop()
		events := written(t, tl)
		for _, region := range []string{"training step", "model", "0", "2", "backward", "optimizer"} {
			require.Len(t, named(events, "X", region), 3, "%s of %s", region, name)
		}
		step, forward := named(events, "X", "training step")[1], named(events, "X", "model")[1]
		require.Less(t, *step.TS, *forward.TS)
		require.Equal(t, *step.TID, *forward.TID)
		require.True(t, slices.ContainsFunc(events, func(e event) bool { return e.Cat == "operation" && e.Ph == "X" }))

		stats := memory.Allocators()[0].Stats()
		most, counters := 0.0, named(events, "C", "allocated memory")
		for _, c := range counters {
			most = max(most, c.Args["bytes"].(float64))
		}
		require.EqualValues(t, stats.AllocatedBytes.All.Peak, most, "the peak is on the track")
		require.Zero(t, counters[len(counters)-1].Args["bytes"], "all is released in the end")
		require.NotEmpty(t, named(events, "C", "reserved memory"))
		var processes []any
		for _, e := range named(events, "M", "process_name") {
			processes = append(processes, e.Args["name"])
		}
		require.Equal(t, []any{"program", dev.ID().String()}, processes)
		require.NoError(t, memory.EmptyCache(dev))
		require.NoError(t, memory.Drop(dev))
	}
}

// What runs at the same time cannot be in one row.
func TestWriteTrace_GivesGoroutinesRowsOfTheirOwn(t *testing.T) {
	tl, err := timeline.Start()
	require.NoError(t, err)
	defer tl.Stop()
	var group sync.WaitGroup
	begun := make(chan func(), 2)
	for range 2 {
		group.Go(func() { begun <- timeline.Region("work") })
	}
	group.Wait()
	first, second := <-begun, <-begun
	outer := timeline.Region("after both")
	first() // not the one that began last: on one row it would reach over the end of the other
	second()
	outer()
	events := written(t, tl)
	require.Len(t, named(events, "X", "work"), 2)
	require.NotEqual(t, *named(events, "X", "work")[0].TID, *named(events, "X", "after both")[0].TID)
}

func TestStart_RecordsForOneAtATime(t *testing.T) {
	tl, err := timeline.Start()
	require.NoError(t, err)
	_, err = timeline.Start()
	require.ErrorIs(t, err, timeline.ErrRecording)
	tl.Stop()
	timeline.Region("after the end")()
	again, err := timeline.Start()
	require.NoError(t, err)
	tl.Stop() // does not stop the other one
	timeline.Region("of the second")()
	again.Stop()
	require.Empty(t, named(written(t, tl), "X", "after the end"))
	require.Empty(t, named(written(t, tl), "X", "of the second"))
	require.Len(t, named(written(t, again), "X", "of the second"), 1)
}

func TestTimeline_OfNobodyHasNothing(t *testing.T) {
	var value *tensor.ValueError
	for _, tl := range []*timeline.Timeline{nil, {}} {
		tl.Stop()
		require.ErrorAs(t, tl.WriteTrace(new(bytes.Buffer)), &value)
		require.Equal(t, "timeline.WriteTrace", value.Op)
	}
	tl, err := timeline.Start()
	require.NoError(t, err)
	tl.Stop()
	require.ErrorAs(t, tl.WriteTrace(nil), &value)
	require.ErrorIs(t, tl.WriteTrace(full{}), errFull)
}

var errFull = errors.New("the disk is full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// An end that is deferred may be called on the way, too.
func TestRegion_EndsOnce(t *testing.T) {
	tl, err := timeline.Start()
	require.NoError(t, err)
	end := timeline.Region("work")
	end()
	end()
	tl.Stop()
	end()
	require.Len(t, named(written(t, tl), "X", "work"), 1)
}

// The step that hangs is the one that somebody looks for.
func TestWriteTrace_HasWhatIsOpenUntilTheEnd(t *testing.T) {
	tl, err := timeline.Start()
	require.NoError(t, err)
	outer := timeline.Region("outer")
	inner := timeline.Region("inner")
	timeline.Region("ended")()
	for _, until := range []func(){func() {}, tl.Stop} {
		until()
		events := written(t, tl)
		require.Nil(t, named(events, "X", "ended")[0].Args)
		for _, name := range []string{"outer", "inner"} {
			list := named(events, "X", name)
			require.Len(t, list, 1, name)
			require.Equal(t, map[string]any{"open": true}, list[0].Args)
			require.Equal(t, *named(events, "X", "ended")[0].TID, *list[0].TID)
		}
	}
	before := written(t, tl)
	inner()
	outer()
	require.Equal(t, before, written(t, tl), "an end after Stop changes nothing")
}

func TestStart_RefusesNoDevice(t *testing.T) {
	dev := opened(t, "host:1GiB")
	for _, none := range []device.Device{nil, (*cuda.Device)(nil)} {
		_, err := timeline.Start(dev, dev, none)
		var value *tensor.ValueError
		require.ErrorAs(t, err, &value)
		require.ErrorContains(t, err, "timeline.Start: device 2 of 3")
		require.ErrorContains(t, err, "nil")
	}
	tl, err := timeline.Start(dev, dev)
	require.NoError(t, err, "nobody records after an error")
	tl.Stop()
}

// Go's own tracer has the regions, without a timeline.
func TestRegion_IsInTracesOfTheRuntime(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("this test is being traced")
	}
	dev := opened(t, "host:1GiB")
	var b bytes.Buffer
	require.NoError(t, trace.Start(&b))
	train(t, dev, 1)
	trace.Stop()
	for _, name := range []string{"training step", "model", "backward", "optimizer"} {
		require.True(t, bytes.Contains(b.Bytes(), []byte(name)), name)
	}
}

func TestRegion_CostsNothingWhileNobodyRecords(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() { timeline.Region("step")() }))
}
