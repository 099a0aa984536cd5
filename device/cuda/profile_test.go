package cuda_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// traceEvent is what the trace event format says an event has. Metadata has no time.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat"`
	Phase    string         `json:"ph"`
	Time     *float64       `json:"ts"`
	Duration *float64       `json:"dur"`
	Process  *int           `json:"pid"`
	Thread   *int           `json:"tid"`
	Args     map[string]any `json:"args"`
}

// row is a line of a viewer: a process and a thread, by their names.
type row struct{ process, thread string }

// readTrace checks that a trace is one, and returns its complete events by row. Those of a row must be in order of time and must
// not overlap.
func readTrace(t *testing.T, text []byte) map[row][]traceEvent {
	t.Helper()
	var file struct {
		TraceEvents     []traceEvent `json:"traceEvents"`
		DisplayTimeUnit string       `json:"displayTimeUnit"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&file))
	require.ErrorIs(t, decoder.Decode(new(any)), io.EOF, "nothing follows")
	require.Contains(t, []string{"ms", "ns"}, file.DisplayTimeUnit)
	processes, threads := map[int]string{}, map[[2]int]string{}
	rows := map[row][]traceEvent{}
	for _, e := range file.TraceEvents {
		require.NotEmpty(t, e.Name)
		require.NotNil(t, e.Process)
		require.NotNil(t, e.Thread)
		switch e.Phase {
		case "M":
			name, _ := e.Args["name"].(string)
			switch e.Name {
			case "process_name":
				processes[*e.Process] = name
			case "thread_name":
				threads[[2]int{*e.Process, *e.Thread}] = name
			default:
				require.Contains(t, []string{"process_sort_index", "thread_sort_index"}, e.Name)
				require.Contains(t, e.Args, "sort_index")
			}
		case "X":
			at := row{processes[*e.Process], threads[[2]int{*e.Process, *e.Thread}]}
			require.NotEmpty(t, at.process, "rows are named before they are used")
			require.NotEmpty(t, at.thread)
			require.NotNil(t, e.Time)
			require.NotNil(t, e.Duration)
			require.GreaterOrEqual(t, *e.Time, 0.0)
			require.GreaterOrEqual(t, *e.Duration, 0.0)
			if before := rows[at]; len(before) > 0 {
				last := before[len(before)-1]
				require.GreaterOrEqual(t, *e.Time+0.001, *last.Time+*last.Duration, "%v: %s and %s overlap", at, last.Name, e.Name)
			}
			rows[at] = append(rows[at], e)
		default:
			require.Fail(t, "no such events are written", e.Phase)
		}
	}
	return rows
}

func traceOf(t *testing.T, p *cuda.Profile) map[row][]traceEvent {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, p.WriteTrace(&out))
	return readTrace(t, out.Bytes())
}

func totalsOf(t *testing.T, p *cuda.Profile) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, p.WriteTotals(&out))
	return out.String()
}

// counts are the totals without their times.
func counts(t *testing.T, p *cuda.Profile) map[cuda.Operation]int {
	t.Helper()
	n := map[cuda.Operation]int{}
	last := time.Duration(1<<63 - 1)
	for _, x := range p.Totals() {
		n[x.Operation] = x.Count
		require.LessOrEqual(t, x.Time, last, "those that took the longest come first")
		last = x.Time
		require.GreaterOrEqual(t, x.Min, time.Duration(0))
		require.LessOrEqual(t, x.Min, x.Mean())
		require.LessOrEqual(t, x.Mean(), x.Max)
		require.LessOrEqual(t, x.Max, x.Time)
	}
	return n
}

func start(t *testing.T, d *cuda.Device) *cuda.Profile {
	t.Helper()
	p, err := d.StartProfile()
	require.NoError(t, err)
	return p
}

func copied(name string, bytes uint64) cuda.Operation {
	return cuda.Operation{Kind: cuda.CopyOperation, Name: name, Bytes: bytes}
}

func filled(bytes uint64) cuda.Operation {
	return cuda.Operation{Kind: cuda.FillOperation, Name: "Fill", Bytes: bytes}
}

// sum is something that a kernel is launched for.
type sum struct{ n int }

func (s sum) String() string { return fmt.Sprintf("sum of %d", s.n) }

func TestProfile_TimesEachKindOfOperation(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	combine, _ := loadKernels(t, r)
	s, x, y := r.Stream(d), r.Malloc(d, 64), r.Malloc(d, 64)
	pinned, err := d.AllocPinned(16)
	require.NoError(t, err)
	require.NoError(t, s.Fill(x, 9, 60), "before the profile")
	p := start(t, d)
	launch := func(operation string) {
		var params device.Params
		params.Ptr(y).Ptr(x).Int32(5).Words(0, 0).Float32(0.5).Int64(-1000)
		shape := device.LaunchShape{Grid: device.Dim3{X: 3, Y: 2}, Block: device.Dim3{X: 2}, Shared: 128}
		require.NoError(t, combine.LaunchAs(operation, s, shape, &params))
	}
	require.NoError(t, s.CopyToDevice(x, make([]byte, 20)))
	require.NoError(t, s.Fill(y, 0, 64))
	launch("combine")
	launch("combine")
	launch("Add")
	var params device.Params
	params.Ptr(y).Ptr(x).Int32(5).Words(0, 0).Float32(0.5).Int64(-1000)
	require.NoError(t, combine.LaunchFor(sum{5}, s, device.LaunchShape{Block: device.Dim3{X: 8}}, &params))
	require.NoError(t, s.Copy(y, x, 30))
	require.NoError(t, s.CopyToDeviceAsync(x, pinned))
	require.NoError(t, s.CopyToHostAsync(pinned, x))
	require.NoError(t, s.CopyToHost(make([]byte, 24), y))
	require.NoError(t, s.BeginCapture())
	require.NoError(t, s.Fill(y, 1, 64))
	launch("combine")
	require.NoError(t, s.Copy(y, x, 30))
	graph := instantiate(t, s)
	require.NoError(t, graph.Launch(s))
	require.NoError(t, graph.Launch(s))
	p.Stop()
	p.Stop()
	require.NoError(t, s.Fill(x, 9, 60), "after the profile")
	kernel := cuda.Operation{Kind: cuda.KernelOperation, Name: "combine", Kernel: "combine", Launch: device.LaunchShape{
		Grid: device.Dim3{X: 3, Y: 2, Z: 1}, Block: device.Dim3{X: 2, Y: 1, Z: 1}, Shared: 128}}
	as := kernel
	as.Name = "Add"
	described := cuda.Operation{Kind: cuda.KernelOperation, Name: "combine", Kernel: "combine", For: "sum of 5", Launch: device.LaunchShape{
		Grid: device.Dim3{X: 1, Y: 1, Z: 1}, Block: device.Dim3{X: 8, Y: 1, Z: 1}}}
	got := counts(t, p)
	var graphs cuda.Operation
	for o := range got {
		if o.Kind == cuda.GraphOperation {
			graphs = o
		}
	}
	require.Regexp(t, `^graph \d+ of 3 operations$`, graphs.Name)
	require.Equal(t, map[cuda.Operation]int{
		copied("CopyToDevice", 20): 1, filled(64): 1, kernel: 2, as: 1, described: 1, copied("Copy", 30): 1, copied("CopyToDeviceAsync", 16): 1,
		copied("CopyToHostAsync", 16): 1, copied("CopyToHost", 24): 1, graphs: 2,
	}, got)

	rows := traceOf(t, p)
	require.Len(t, rows, 2)
	work := rows[row{"cuda:0, Cistern Emulated GPU", "stream 1"}]
	calls := rows[row{"cuda:0, Cistern Emulated GPU", "stream 1: calls"}]
	require.Len(t, work, 12)
	require.Len(t, calls, 12)
	order := []string{"CopyToDevice", "Fill", "combine", "combine", "Add (combine)", "combine", "Copy", "CopyToDeviceAsync", "CopyToHostAsync",
		"CopyToHost", graphs.Name, graphs.Name}
	for i, e := range work {
		require.Equal(t, order[i], e.Name)
		require.Equal(t, order[i], calls[i].Name)
		require.Equal(t, "call", calls[i].Category)
		require.EqualValues(t, i, e.Args["operation"])
		require.EqualValues(t, i, calls[i].Args["operation"])
	}
	require.Equal(t, "kernel", work[2].Category)
	require.Equal(t, "<3,2> x <2> + 128 B", work[2].Args["shape"])
	require.Equal(t, "<1> x <8>  sum of 5", work[5].Args["shape"])
	require.EqualValues(t, 6, work[2].Args["blocks"])
	require.EqualValues(t, 2, work[2].Args["threads"])
	require.Equal(t, "24 B", work[9].Args["shape"])

	text := totalsOf(t, p)
	require.Contains(t, text, "cuda:0, Cistern Emulated GPU: 12 operations, ")
	require.Contains(t, text, "stream 1: 12 operations, busy ")
	require.Contains(t, text, "3 operations were captured: ")
	require.Regexp(t, regexp.MustCompile(`(?m)^ +[0-9.]+ % +2 .* kernel +combine +<3,2> x <2> \+ 128 B$`), text)
	require.Regexp(t, regexp.MustCompile(`(?m)^ +[0-9.]+ % +1 .* \S+ GB/s +copy +CopyToHost +24 B$`), text)
	require.Regexp(t, regexp.MustCompile(`(?m)^ +[0-9.]+ % +3 .* kernel +combine +2 shapes$`), text)
	require.NotContains(t, text, "failed")
	require.NotContains(t, text, "no time")
}

func TestProfile_TimesProducts(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	q, err := newSquare(r.Devices[0], 8)
	require.NoError(t, err)
	q.require(t, q.product(), 8*2*3) // makes the library's handles and plans
	q.require(t, q.biased(), 8*2*3+5)
	p := start(t, q.d)
	for range 2 {
		q.require(t, q.product(), 8*2*3)
		q.require(t, q.biased(), 8*2*3+5)
	}
	transposed := q.product()
	transposed.B.Row, transposed.B.Column = 1, 8
	q.require(t, transposed, 8*2*3)
	p.Stop()
	product := cuda.Operation{Kind: cuda.ProductOperation, Name: "cublasGemmEx", Type: transposed.Type, M: 8, N: 8, K: 8, Batch: 1, Layout: "NN"}
	biased, other := product, product
	biased.Name, other.Layout = "cublasLtMatmul", "NT"
	require.Equal(t, map[cuda.Operation]int{product: 2, biased: 2, other: 1, copied("CopyToHost", 256): 5}, counts(t, p))
	require.Regexp(t, `\S+ TFLOP/s +product +cublasLtMatmul +m=8 n=8 k=8 float32 NN\n`, totalsOf(t, p))
}

// The device's times are those of its work.
func TestProfile_TellsHowLongWorkTakes(t *testing.T) {
	const takes = 20 * time.Millisecond
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, p := r.Stream(d), r.Malloc(d, 64)
	profile := start(t, d)
	r.DelayWork(takes)
	begin := time.Now()
	for range 3 {
		require.NoError(t, s.Fill(p, 1, 64))
	}
	require.NoError(t, s.Synchronize(background))
	all := time.Since(begin)
	profile.Stop()
	total := profile.Totals()[0]
	require.GreaterOrEqual(t, total.Min, takes)
	t.Log(total.Time, all, total.Min, total.Max)
	require.Less(t, total.Time, all)
	rows := traceOf(t, profile)
	work, calls := rows[row{"cuda:0, Cistern Emulated GPU", "stream 1"}], rows[row{"cuda:0, Cistern Emulated GPU", "stream 1: calls"}]
	require.GreaterOrEqual(t, *work[2].Time-*work[0].Time, float64(2*takes.Microseconds()))
	require.GreaterOrEqual(t, *work[2].Time, *calls[2].Time+float64(takes.Microseconds()), "it waited for the ones before")
}

func TestProfile_OffMakesNoCallOfItsOwn(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, p := r.Stream(d), r.Malloc(d, 64)
	start(t, d).Stop()
	require.NoError(t, s.Fill(p, 1, 64))
	before := r.Calls()
	for range 10 {
		require.NoError(t, s.Fill(p, 1, 64))
	}
	require.NoError(t, s.Synchronize(background))
	after := r.Calls()
	for name, n := range after {
		switch name {
		case "cuCtxSetCurrent":
			require.Equal(t, 11, n-before[name])
		case "cuMemsetD8Async":
			require.Equal(t, 10, n-before[name])
		case "cuStreamSynchronize":
			require.Equal(t, 1, n-before[name])
		default:
			require.Equal(t, before[name], n, name)
		}
	}
	require.Zero(t, after["cuEventCreate"]-after["cuEventDestroy_v2"], "Stop gives all events back")
}

// While goroutines share streams and profiles come and go, every operation is counted once in each profile that ran all the time,
// and none overlaps another one of its stream.
func TestProfile_OfGoroutinesThatShareStreams(t *testing.T) {
	const goroutines, each = 4, 100
	r := cudatest.New(t, 2)
	a, b := r.Devices[0], r.Devices[1]
	streams := []device.Stream{r.Stream(a), r.Stream(a), a.DefaultStream(), r.Stream(b)}
	memory := []device.Ptr{r.Malloc(a, 4096), r.Malloc(a, 4096), r.Malloc(a, 4096), r.Malloc(b, 4096)}
	a.SetProfileLimits(0, 16, time.Millisecond)
	onA, onB := start(t, a), start(t, b)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				for k, s := range streams {
					at := memory[k].Add(uint64(g * 64))
					if err := errors.Join(s.Fill(at, byte(i), 64), s.CopyToHost(make([]byte, 64), at)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Go(func() {
		for range 20 {
			p, err := a.StartProfile()
			if err != nil {
				t.Error(err)
				return
			}
			if err := streams[0].Synchronize(background); err != nil {
				t.Error(err)
			}
			p.Stop()
			_ = p.Totals()
		}
	})
	group.Wait()
	onA.Stop()
	onB.Stop()
	require.Equal(t, map[cuda.Operation]int{filled(64): 3 * goroutines * each, copied("CopyToHost", 64): 3 * goroutines * each}, counts(t, onA))
	require.Equal(t, map[cuda.Operation]int{filled(64): goroutines * each, copied("CopyToHost", 64): goroutines * each}, counts(t, onB))
	rows := traceOf(t, onA)
	require.Len(t, rows, 6, "two for each stream that was used")
	for _, name := range []string{"stream 0", "stream 1", "stream 2"} {
		require.Len(t, rows[row{"cuda:0, Cistern Emulated GPU", name}], 2*goroutines*each)
	}
	require.NotContains(t, totalsOf(t, onA), "no time")
}

func TestProfile_WaitsForTheOldestWhenManyAreUnderWay(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, m := r.Stream(d), r.Malloc(d, 64)
	d.SetProfileLimits(0, 8, 0)
	p := start(t, d)
	before := r.Calls()["cuEventCreate"]
	r.DelayWork(time.Millisecond) // so that the queue gets long
	for range 50 {
		require.NoError(t, s.Fill(m, 1, 64))
	}
	require.LessOrEqual(t, r.Calls()["cuEventCreate"]-before, 16, "two for each operation that may be under way")
	p.Stop()
	require.Equal(t, map[cuda.Operation]int{filled(64): 50}, counts(t, p))
	require.Regexp(t, `\d+ times the profile waited`, totalsOf(t, p))
}

func TestProfile_TotalsGoOnWhenTheTraceIsFull(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, m := r.Stream(d), r.Malloc(d, 64)
	d.SetProfileLimits(10, 0, 0)
	p := start(t, d)
	for range 25 {
		require.NoError(t, s.Fill(m, 1, 64))
	}
	p.Stop()
	require.Equal(t, map[cuda.Operation]int{filled(64): 25}, counts(t, p))
	require.Len(t, traceOf(t, p)[row{"cuda:0, Cistern Emulated GPU", "stream 1"}], 10)
	require.Contains(t, totalsOf(t, p), "15 operations are in these totals and not in the trace")
}

// A long profile takes a new base for its times again and again; they still are in order and true.
func TestProfile_LastsLongerThanItsClock(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, m := r.Stream(d), r.Malloc(d, 64)
	d.SetProfileLimits(0, 0, 2*time.Millisecond)
	p := start(t, d)
	before := r.Calls()["cuEventElapsedTime"]
	r.DelayWork(300 * time.Microsecond)
	begin := time.Now()
	const n = 60
	for range n {
		require.NoError(t, s.Fill(m, 1, 64))
		require.NoError(t, s.Synchronize(background))
	}
	took := time.Since(begin)
	require.Less(t, r.Calls()["cuEventCreate"]-r.Calls()["cuEventDestroy_v2"], 10, "bases of which nothing is timed any more are given back")
	p.Stop()
	require.Greater(t, r.Calls()["cuEventElapsedTime"]-before, 2*n, "some were for new bases")
	rows := traceOf(t, p)
	work, calls := rows[row{"cuda:0, Cistern Emulated GPU", "stream 1"}], rows[row{"cuda:0, Cistern Emulated GPU", "stream 1: calls"}]
	require.Len(t, work, n)
	require.Less(t, *work[n-1].Time-*work[0].Time, float64(took.Microseconds()))
	for i := range work {
		next := *calls[i].Time + float64(took.Microseconds())
		if i+1 < n {
			next = *calls[i+1].Time // each was waited for
		}
		const slack = 2000 // µs; how well the clocks of host and device are compared on a machine that does other things, too
		require.Greater(t, *work[i].Time+slack, *calls[i].Time)
		require.Less(t, *work[i].Time, next+slack)
	}
}

// Whatever call of the driver fails while a profile runs: what the program does works as without a profile, or fails with the
// program's own call, and nothing is left.
func TestProfile_FaultsFailNoOperation(t *testing.T) {
	path := fakecuda.Build(t)
	library := fakecuda.Open(t, path)
	own := map[string]bool{} // calls that only a profile makes
	for _, name := range []string{"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuEventElapsedTime", "cuEventDestroy_v2"} {
		own[name] = true
	}
	for name := range own {
		for nth := 1; ; nth++ {
			library.Reset()
			devices, err := cuda.OpenLibrary(path)
			require.NoError(t, err)
			d := devices[0]
			d.SetProfileLimits(0, 4, time.Microsecond)
			before := 0
			library.DelayWork(200 * time.Microsecond) // so that all events are under way at times
			library.Fail(name, nth, 999)
			p, err := d.StartProfile()
			for err != nil {
				var result cuda.Result
				require.ErrorAs(t, err, &result, name)
				p, err = d.StartProfile()
			}
			before = profiledWork(t, d)
			p.Stop()
			seen := 0
			for _, n := range counts(t, p) {
				seen += n
			}
			require.LessOrEqual(t, seen, before)
			require.GreaterOrEqual(t, seen, before-1, "%s %d: one operation has no time", name, nth)
			traceOf(t, p)
			called := library.Calls()[name]
			library.ClearFaults()
			require.NoError(t, d.Close())
			require.Empty(t, library.Leaks(), "%s %d", name, nth)
			if nth > called {
				require.Equal(t, before, seen)
				require.NotContains(t, totalsOf(t, p), "failed")
				require.Greater(t, nth, 1, "%s is never called", name)
				break
			}
		}
	}
}

// profiledWork enqueues operations on a stream, none of which may fail, waits, and returns how many there were.
func profiledWork(t *testing.T, d *cuda.Device) int {
	t.Helper()
	s, err := d.NewStream()
	require.NoError(t, err)
	m, err := d.Malloc(64)
	require.NoError(t, err)
	for i := range 7 {
		require.NoError(t, s.Fill(m, byte(i), 64))
	}
	got := make([]byte, 64)
	require.NoError(t, s.CopyToHost(got, m))
	require.Equal(t, bytes.Repeat([]byte{6}, 64), got, "the copy was made and waited for")
	require.NoError(t, s.Synchronize(background))
	require.NoError(t, s.Close())
	require.NoError(t, d.Free(m))
	return 8
}

func TestProfile_FaultsOfProductsFailNoProduct(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	q, err := newSquare(r.Devices[0], 8)
	require.NoError(t, err)
	q.require(t, q.product(), 8*2*3)
	q.require(t, q.biased(), 8*2*3+5)
	p := start(t, q.d)
	for nth := range 4 { // of product and copy
		r.Fail("cuEventRecord", nth+1, 999)
		q.require(t, q.product(), 8*2*3)
		r.Fail("cuEventRecord", nth+1, 999)
		q.require(t, q.biased(), 8*2*3+5)
	}
	r.ClearFaults()
	require.Zero(t, q.d.BLAS().Refusals)
	r.Fail("cublasGemmEx", 1, 13)
	_, _, err = q.multiply(q.product())
	require.ErrorContains(t, err, "cublasGemmEx: CUBLAS_STATUS_EXECUTION_FAILED")
	r.Fail("cublasLtMatmul", 1, 13)
	_, _, err = q.multiply(q.biased())
	require.ErrorContains(t, err, "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED")
	p.Stop()
	require.Contains(t, totalsOf(t, p), "8 calls of the driver failed, the first: cuda:0: cuEventRecord: CUDA_ERROR_UNKNOWN (999) (in a profile)")
	require.Contains(t, totalsOf(t, p), "8 operations have no time")
}

func TestProfile_OfALostDeviceHasWhatWasDone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	t.Setenv(cuda.ProfileVariable, file)
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, m := r.Stream(d), r.Malloc(d, 64)
	p := start(t, d)
	require.NoError(t, s.Fill(m, 1, 64))
	require.NoError(t, s.Synchronize(background))
	r.Fail("work", 2, 700)
	require.NoError(t, s.Fill(m, 1, 60))
	err := s.Synchronize(background)
	require.ErrorIs(t, err, device.ErrLaunch)
	require.ErrorContains(t, err, "cuda:0: Fill: ")
	require.Error(t, s.Fill(m, 1, 60))
	p.Stop()
	require.Equal(t, map[cuda.Operation]int{filled(64): 1}, counts(t, p))
	require.Len(t, traceOf(t, p), 2)
	require.Contains(t, totalsOf(t, p), "1 operation has no time")
	_, err = d.StartProfile()
	require.ErrorIs(t, err, device.ErrUnavailable)
	require.Error(t, d.Close())
	text, err := os.ReadFile(file + ".txt")
	require.NoError(t, err)
	require.Contains(t, string(text), "cuda:0, Cistern Emulated GPU: 1 operation, ")
	require.FileExists(t, file)
}

func TestProfile_DoesNotDisturbCaptures(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, other, m := r.Stream(d), r.Stream(d), r.Malloc(d, 64)
	p := start(t, d)
	d.SetProfileLimits(0, 0, time.Nanosecond)
	for range 3 {
		require.NoError(t, s.Fill(m, 0, 64))
		require.NoError(t, s.BeginCapture())
		require.NoError(t, s.Fill(m, 1, 64))
		require.NoError(t, other.Fill(m, 2, 64))
		require.NoError(t, other.Synchronize(background), "reads what is done")
		inside := start(t, d)
		require.NoError(t, s.Copy(m, m.Add(32), 32))
		inside.Stop()
		require.Empty(t, inside.Totals())
		require.Contains(t, totalsOf(t, inside), "1 operation was captured")
		graph, err := s.EndCapture()
		require.NoError(t, err)
		nodes, err := graph.(*cuda.Graph).Nodes()
		require.NoError(t, err)
		require.Equal(t, 2, nodes, "no event is in the graph")
		require.NoError(t, graph.Close())
	}
	p.Stop()
	require.Equal(t, map[cuda.Operation]int{filled(64): 6}, counts(t, p))
	require.Contains(t, totalsOf(t, p), "6 operations were captured")
}

func TestProfile_OfTheEnvironmentIsWrittenByClose(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	t.Setenv(cuda.ProfileVariable, file)
	r := cudatest.New(t, 3)
	for i, d := range r.Devices[:2] {
		s, m := r.Stream(d), r.Malloc(d, 64)
		for range i + 1 {
			require.NoError(t, s.Fill(m, 0, 64))
		}
		region := start(t, d)
		require.NoError(t, s.Fill(m, 0, 60))
		region.Stop()
		require.Equal(t, map[cuda.Operation]int{filled(60): 1}, counts(t, region), "a program's own profiles are apart")
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return text
	}
	require.NoFileExists(t, file)
	for i, d := range r.Devices {
		require.NoError(t, d.Close())
		rows := readTrace(t, read(file))
		require.Len(t, rows, 4, "two devices were used")
		require.Len(t, rows[row{"cuda:0, Cistern Emulated GPU", "stream 1"}], 2)
		if i > 0 {
			require.Len(t, rows[row{"cuda:1, Cistern Emulated GPU", "stream 1"}], 3)
			require.Contains(t, string(read(file+".txt")), "cuda:1, Cistern Emulated GPU: 3 operations")
		}
		require.Contains(t, string(read(file+".txt")), "cuda:0, Cistern Emulated GPU: 2 operations")
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{file, file + ".txt"}, left, "nothing half written stays")
}

func TestProfile_ThatCannotBeWrittenIsTheErrorOfClose(t *testing.T) {
	file := filepath.Join(t.TempDir(), "absent", "trace.json")
	t.Setenv(cuda.ProfileVariable, file)
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	require.NoError(t, d.Free(r.Malloc(d, 1)))
	err := d.Close()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, cuda.ProfileVariable)
	require.ErrorContains(t, err, file)
	require.NoError(t, d.Close(), "it is closed all the same")
}

func TestProfile_OfTheEnvironmentThatCannotBeginIsToldInTheTotals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	t.Setenv(cuda.ProfileVariable, file)
	r := cudatest.New(t, 1, func(l *fakecuda.Library) { l.Fail("cuEventRecord", 1, 999) })
	d := r.Devices[0]
	require.NoError(t, d.DefaultStream().Fill(r.Malloc(d, 64), 0, 64))
	require.NoError(t, d.Close())
	text, err := os.ReadFile(file + ".txt")
	require.NoError(t, err)
	require.Contains(t, string(text), "0 operations")
	require.Contains(t, string(text), "1 call of the driver failed, the first: cuda:0: cuEventRecord: CUDA_ERROR_UNKNOWN (999)")
}

// Two goroutines enqueue operations on one stream: nothing of the one comes between the events of the other.
func TestProfile_TellsGoroutinesOfOneStreamApart(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, m := r.Stream(d), r.Malloc(d, 64)
	require.NoError(t, s.Fill(m, 1, 64))
	require.NoError(t, s.Synchronize(background))
	p := start(t, d)
	r.HoldStream(s.Handle())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- s.CopyToHost(make([]byte, 64), m) }()
	for r.Calls()["cuMemcpyDtoHAsync_v2"] == 0 { // until the copy is between its events
		runtime.Gosched()
	}
	before := r.Calls()["cuEventRecord"]
	go func() { second <- s.Fill(m, 1, 32) }()
	came := false
	select {
	case err := <-second:
		second <- err
		came = true
	case <-time.After(20 * time.Millisecond):
	}
	after := r.Calls()["cuEventRecord"]
	r.ReleaseStream(s.Handle())
	require.False(t, came, "the operation is on the stream while another one is being enqueued")
	require.LessOrEqual(t, after, before+1, "only the copy's last event can have come")
	require.NoError(t, <-first)
	require.NoError(t, <-second)
	p.Stop()
	require.Equal(t, map[cuda.Operation]int{filled(32): 1, copied("CopyToHost", 64): 1}, counts(t, p))
}

func TestProfile_WrittenToANilWriter_IsAnError(t *testing.T) {
	r := cudatest.New(t, 1)
	p := start(t, r.Devices[0])
	defer p.Stop()
	for _, w := range []io.Writer{nil, (*os.File)(nil), (*bytes.Buffer)(nil)} {
		require.ErrorIs(t, p.WriteTrace(w), device.ErrInvalidValue, "%T", w)
		require.ErrorIs(t, p.WriteTotals(w), device.ErrInvalidValue, "%T", w)
	}
}
