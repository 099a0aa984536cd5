package memprof_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memprof"
	"github.com/cistern-ml/cistern/memory/pinned"
)

// open gives a device whose allocator memory.For has made.
func open(t *testing.T) (*sim.Device, *memory.Caching) {
	t.Helper()
	dev := sim.New(device.GiB)
	a, err := memory.For(dev)
	require.NoError(t, err)
	t.Cleanup(func() { _ = memory.Drop(dev) })
	return dev, a.(*memory.Caching)
}

//go:noinline
func weights(t *testing.T, a memory.Allocator, bytes uint64, s device.Stream) memory.Block {
	b, err := a.Alloc(bytes, s)
	require.NoError(t, err)
	return b
}

//go:noinline
func activations(t *testing.T, a memory.Allocator, bytes uint64, s device.Stream) memory.Block {
	b, err := a.Alloc(bytes, s)
	require.NoError(t, err)
	return b
}

// Profiles that are written at the same time share nothing that writing changes.
func TestEncode_OfSeveralAtATime(t *testing.T) {
	dev, a := open(t)
	b := weights(t, a, device.MiB, dev.DefaultStream())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				assert.NoError(t, memprof.WriteProfile(io.Discard, dev))
			}
		})
	}
	all.Wait()
	require.NoError(t, a.Free(b))
}

// full is a file on a disk that has room for so many bytes.
type full struct{ room int }

var errFull = errors.New("no space left on device")

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// A profile that is not all there is an error, wherever it ends.
func TestWriteProfile_ReportsEveryFailedWrite(t *testing.T) {
	dev, a := open(t)
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
	b := weights(t, a, device.MiB, dev.DefaultStream())
	defer func() { require.NoError(t, a.Free(b)) }()
	s := a.Snapshot()
	var whole bytes.Buffer
	require.NoError(t, memprof.Encode(&whole, s))
	for room := 0; room < whole.Len()-16; room += 7 { // times differ in length
		require.ErrorIs(t, memprof.Encode(&full{room}, s), errFull, "%d of %d bytes", room, whole.Len())
		require.ErrorIs(t, memprof.WriteProfile(&full{room}, dev), errFull, "%d of %d bytes", room, whole.Len())
	}
}

// decoded is what a test wants to know of a profile.
type decoded struct {
	types   []string
	samples []decodedSample
	preset  string
}

type decodedSample struct {
	values []int64
	stack  []string // names of functions with their lines, innermost first
	labels string
}

// decode reads a gzipped profile, as go tool pprof does.
func decode(t *testing.T, data []byte) (d decoded) {
	t.Helper()
	p, err := profile.ParseData(data)
	require.NoError(t, err)
	require.NoError(t, p.CheckValid())
	d.preset = p.DefaultSampleType
	for _, v := range p.SampleType {
		d.types = append(d.types, v.Type+"/"+v.Unit)
	}
	for _, s := range p.Sample {
		sample := decodedSample{values: s.Value}
		for _, l := range s.Location {
			require.Len(t, l.Line, 1)
			require.Equal(t, p.Mapping[0], l.Mapping)
			sample.stack = append(sample.stack, fmt.Sprintf("%s:%d", l.Line[0].Function.Name, l.Line[0].Line))
		}
		for _, key := range slices.Sorted(maps.Keys(s.Label)) {
			sample.labels += fmt.Sprintf(" %s=%s", key, strings.Join(s.Label[key], ","))
		}
		for key, values := range s.NumLabel {
			sample.labels += fmt.Sprintf(" %s=%d", key, values[0])
		}
		d.samples = append(d.samples, sample)
	}
	return d
}

// profileOf is the profile of a device, now.
func profileOf(t *testing.T, dev device.Device) decoded {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, memprof.WriteProfile(&b, dev))
	return decode(t, b.Bytes())
}

const here = "github.com/cistern-ml/cistern/memory/memprof_test."

func TestWriteProfile_AddsUpBlocksByPlace(t *testing.T) {
	dev, a := open(t)
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{Enabled: memory.HistoryState, Context: memory.ContextState}))
	s := dev.DefaultStream()
	for range 3 {
		weights(t, a, 3*device.MiB, s)
	}
	b := activations(t, a, 1000, s)
	p := profileOf(t, dev)
	require.Equal(t, []string{"inuse_objects/count", "inuse_space/bytes", "requested_space/bytes", "cached_space/bytes"}, p.types)
	require.Equal(t, "inuse_space", p.preset)
	require.Len(t, p.samples, 4)

	cached := p.samples[0]
	require.Equal(t, []int64{0, 0, 0, 11 << 20}, cached.values, "the rest of the large segment")
	require.Contains(t, cached.stack[0], here+"weights:")
	require.Equal(t, " pool=large stream=0", cached.labels)

	large := p.samples[1]
	require.Equal(t, []int64{3, 9 << 20, 9 << 20, 0}, large.values)
	require.Contains(t, large.stack[0], here+"weights:")
	require.Contains(t, large.stack[1], here+"TestWriteProfile_AddsUpBlocksByPlace:")
	require.Equal(t, " pool=large state=active_allocated stream=0", large.labels)

	small := p.samples[3]
	require.Equal(t, []int64{1, 1024, 1000, 0}, small.values)
	require.Contains(t, small.stack[0], here+"activations:")
	require.NoError(t, a.Free(b))
	require.Len(t, profileOf(t, dev).samples, 3)
}

func TestWriteProfile_AddsUpToWhatIsReserved(t *testing.T) {
	dev, a := open(t)
	s, other := dev.DefaultStream(), dev.Stream(3)
	weights(t, a, 3*device.MiB, s) // of an unknown place
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
	for i := range 100 {
		b := weights(t, a, uint64(i+1)*30*device.KiB, s)
		if i%3 == 0 {
			require.NoError(t, a.Free(b))
		}
	}
	pool := a.NewPool()
	weights(t, pool, 100, other)
	var sum [4]int64
	stacks := ""
	for _, row := range profileOf(t, dev).samples {
		for i, v := range row.values {
			sum[i] += v
		}
		stacks += fmt.Sprintln(row.stack, row.labels)
	}
	stats := a.Stats()
	require.Equal(t, [4]int64{stats.Active.All.Current, stats.ActiveBytes.All.Current, stats.RequestedBytes.All.Current,
		stats.ReservedBytes.All.Current - stats.ActiveBytes.All.Current}, sum)
	require.Contains(t, stacks, "[(allocated before RecordHistory):0]")
	require.Contains(t, stacks, " pool_id=0_1 stream=3")
}

func TestWriteProfile_NeedsACachingAllocator(t *testing.T) {
	dev := sim.New(device.GiB)
	require.ErrorContains(t, memprof.WriteProfile(io.Discard, dev), fmt.Sprintf("%s has no caching allocator", dev.ID()))
	t.Setenv("CISTERN_NO_MEMORY_CACHING", "1")
	_, err := memory.For(dev)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, memory.Drop(dev)) })
	require.ErrorContains(t, memprof.WriteProfile(io.Discard, dev), "has no caching allocator")
	require.Equal(t, http.StatusNotFound, get(t, memprof.Handler(), "/debug/memory/profile").Code)
	require.Equal(t, http.StatusNotFound, post(t, memprof.Handler(), "/debug/memory/profile?seconds=1").Code)
	require.Equal(t, http.StatusOK, get(t, memprof.Handler(), "/debug/memory/summary").Code)
}

func get(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	return ask(t, h, http.MethodGet, target)
}

func post(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	return ask(t, h, http.MethodPost, target)
}

// ask makes a request; headers are pairs of name and value.
func ask(t *testing.T, h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

func TestHandler_ServesEveryForm(t *testing.T) {
	_, first := open(t)
	dev, a := open(t)
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
	weights(t, a, 3*device.MiB, dev.DefaultStream())
	h := memprof.Handler()
	query := "?device=" + dev.ID().String()

	w := get(t, h, "/debug/memory/summary"+query)
	require.Equal(t, a.Stats().Summary(dev.ID(), false), w.Body.String())
	require.Equal(t, first.Stats().Summary(first.Device(), false), get(t, h, "/debug/memory/summary").Body.String())

	var stats memory.Stats
	require.NoError(t, json.Unmarshal(get(t, h, "/debug/memory/stats"+query).Body.Bytes(), &stats))
	require.Equal(t, a.Stats().AllocatedBytes, stats.AllocatedBytes)

	var s memory.Snapshot
	w = get(t, h, "/debug/memory/snapshot.json"+query)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	require.Len(t, s.Segments, 1)
	require.Len(t, s.DeviceTraces[dev.ID().Index], 2)

	w = get(t, h, "/debug/memory/snapshot.pickle"+query)
	require.Equal(t, `attachment; filename="snapshot.pickle"`, w.Header().Get("Content-Disposition"))
	require.True(t, bytes.HasPrefix(w.Body.Bytes(), []byte{0x80, 4, '}', '('}))

	require.Len(t, decode(t, get(t, h, "/debug/memory/profile"+query).Body.Bytes()).samples, 2)

	w = get(t, h, "/debug/memory/snapshot.html"+query)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Contains(t, w.Body.String(), `<script type="application/json" id="data">{"device":`)

	require.Contains(t, get(t, h, "/debug/memory/history"+query).Body.String(), `"trace":{"actions":["segment_alloc","alloc"`)
}

func TestHandler_SnapshotsHaveThePinnedMemoryOfTheirDeviceIfItIsRecorded(t *testing.T) {
	dev, _ := open(t)
	other, _ := open(t)
	p, err := pinned.For(dev)
	require.NoError(t, err)
	segments := func(dev device.Device) int {
		var s memory.Snapshot
		w := get(t, memprof.Handler(), "/debug/memory/snapshot.json?device="+dev.ID().String())
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
		return len(s.HostSegments)
	}
	b, err := p.Alloc(1000)
	require.NoError(t, err)
	require.Zero(t, segments(dev))
	require.NoError(t, p.RecordHistory(memory.HistoryOptions{}))
	require.Equal(t, 1, segments(dev))
	require.Zero(t, segments(other))
	require.Equal(t, []*pinned.Allocator{p}, pinned.Allocators())
	require.NoError(t, p.Free(b))
}

func TestHandler_RefusesWhatItCannotServe(t *testing.T) {
	h := memprof.Handler()
	require.Contains(t, get(t, h, "/debug/memory/state").Body.String(), `{"devices":[]`)
	require.Equal(t, http.StatusNotFound, get(t, h, "/debug/memory/stats").Code)
	open(t)
	require.Equal(t, http.StatusNotFound, get(t, h, "/debug/memory/summary?device=cuda:7").Code)
	for _, s := range []string{"0", "x", "601", "-1"} {
		w := post(t, h, "/debug/memory/snapshot.json?seconds="+s)
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), "a whole number from 1 to 600")
	}
}

// What is refused says why, and what would be served.
func TestHandler_SaysWhatItWants(t *testing.T) {
	h := memprof.Handler()
	require.Equal(t, "no device has an allocator yet\n", get(t, h, "/debug/memory/stats").Body.String())
	dev, _ := open(t)
	const timed = "; snapshot.html, snapshot.pickle, snapshot.json and profile can wait"
	for _, c := range []struct {
		method, target string
		status         int
		want           string
	}{
		{http.MethodGet, "stats?seconds=1", http.StatusBadRequest, "stats is of this moment, and takes no seconds" + timed},
		{http.MethodPost, "stats?seconds=1", http.StatusBadRequest, "stats is of this moment, and takes no seconds" + timed},
		{http.MethodGet, "summary?seconds=x", http.StatusBadRequest, "summary is of this moment, and takes no seconds" + timed},
		{http.MethodGet, "?seconds=1", http.StatusBadRequest, "the page is of this moment, and takes no seconds" + timed},
		{http.MethodGet, "nothing?seconds=1", http.StatusNotFound, `there is no "nothing" here`},
		{http.MethodGet, "nothing", http.StatusNotFound,
			`there is no "nothing" here; there are summary, stats, snapshot.html, snapshot.pickle, snapshot.json, profile, state, history and record`},
		{http.MethodGet, "profile?seconds=10", http.StatusMethodNotAllowed, "profile?seconds=10 records history, which changes what the program does, and so needs a POST (curl -X POST)"},
		{http.MethodHead, "snapshot.json?seconds=7", http.StatusMethodNotAllowed, "snapshot.json?seconds=7 records"},
		{http.MethodGet, "snapshot.json?seconds=abc", http.StatusBadRequest, `seconds is "abc", must be a whole number from 1 to 600`},
		{http.MethodGet, "record?on=1", http.StatusMethodNotAllowed, "record changes what the program does, and so needs a POST (curl -X POST)"},
		{http.MethodPut, "stats", http.StatusMethodNotAllowed, `the method is "PUT"; want GET, HEAD or POST`},
		{http.MethodGet, "summary?device=cuda:7", http.StatusNotFound, fmt.Sprintf(`no allocator of device "cuda:7"; there is one of %s`, dev.ID())},
		{http.MethodPost, "record?on=2", http.StatusBadRequest, `on is "2", must be 1 to begin a recording or 0 to end it`},
		{http.MethodPost, "profile?seconds=1e3", http.StatusBadRequest, `seconds is "1e3", must be a whole number from 1 to 600`},
	} {
		w := ask(t, h, c.method, "/debug/memory/"+c.target)
		require.Equal(t, c.status, w.Code, c.target)
		require.Contains(t, w.Body.String(), c.want)
		switch {
		case c.status != http.StatusMethodNotAllowed:
			require.Empty(t, w.Header().Get("Allow"), c.target)
		case c.method == http.MethodPut:
			require.Equal(t, "GET, HEAD, POST", w.Header().Get("Allow"), c.target)
		default:
			require.Equal(t, "POST", w.Header().Get("Allow"), c.target)
		}
	}
}

func TestHandler_RecordsForSomeSeconds(t *testing.T) {
	dev, a := open(t)
	h := memprof.Handler()
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan *httptest.ResponseRecorder)
		ask := func() { answers <- post(t, h, "/debug/memory/snapshot.json?seconds=10") }
		go ask()
		synctest.Wait()
		require.True(t, a.HistoryEnabled())
		b := weights(t, a, 3*device.MiB, dev.DefaultStream())
		require.Equal(t, http.StatusConflict, post(t, h, "/debug/memory/snapshot.json?seconds=1").Code)
		w := <-answers
		require.False(t, a.HistoryEnabled(), "it was begun for the request")
		var s memory.Snapshot
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
		require.Len(t, s.DeviceTraces[dev.ID().Index], 2)

		require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
		go ask()
		<-answers
		require.True(t, a.HistoryEnabled(), "it was not")
		a.StopHistory()
		require.NoError(t, a.Free(b))
	})
}

func TestHandler_StopsRecordingWhenTheClientIsGone(t *testing.T) {
	_, a := open(t)
	h := memprof.Handler()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/debug/memory/snapshot.json?seconds=10", nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		require.True(t, a.HistoryEnabled())
		cancel()
		<-done
		require.False(t, a.HistoryEnabled())
	})
}

func TestPublish_ShowsTheStatisticsOfAllDevices(t *testing.T) {
	dev, a := open(t)
	weights(t, a, 1000, dev.DefaultStream())
	memprof.Publish()
	memprof.Publish()
	var all map[string]memory.Stats
	require.NoError(t, json.Unmarshal([]byte(expvar.Get("cistern_memory").String()), &all))
	require.Equal(t, a.Stats().AllocatedBytes, all[dev.ID().String()].AllocatedBytes)
}

func TestEncode_ToANilWriter_IsAnArgumentError(t *testing.T) {
	var bad *memory.ArgumentError
	for _, w := range []io.Writer{nil, (*os.File)(nil), (*bytes.Buffer)(nil)} {
		require.ErrorAs(t, memprof.Encode(w, memory.Snapshot{}), &bad, "%T", w)
	}
}

// The page's address without its slash leads there, also where no mux does that.
func TestHandler_LeadsToThePage(t *testing.T) {
	answer := httptest.NewRecorder()
	memprof.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/memory", nil))
	require.Equal(t, http.StatusMovedPermanently, answer.Code)
	require.Equal(t, "/debug/memory/", answer.Header().Get("Location"))
}
