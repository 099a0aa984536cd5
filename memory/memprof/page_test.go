package memprof_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memprof"
)

// pageState is what a test wants to know of the state that the page gets.
type pageState struct {
	Devices   []string
	Device    string
	Recording bool
	Ours      bool
	Stats     memory.Stats
	Usage     *memory.Usage
	Samples   [][5]int64
	Limit     int64
	Summary   string
	Drawing   *pageDrawing
}

type pageDrawing struct {
	Frames   []memory.Frame
	Stacks   [][]int
	Segments []struct {
		Address uint64
		Pieces  []int64
	}
	Sites []struct {
		Stack, Blocks int
		Bytes         int64
	}
	AddedUp   int   `json:"added_up"`
	Allocated int64 `json:"allocated_bytes"`
	Pending   int64 `json:"pending_bytes"`
	Cached    int64 `json:"cached_bytes"`
	Requested int64 `json:"requested_bytes"`
	Blocks    int
}

// drawn adds up what is drawn: the numbers of all pieces.
func (d *pageDrawing) drawn() (sum [6]int64) {
	for _, seg := range d.Segments {
		for i, n := range seg.Pieces {
			if i%8 < len(sum) {
				sum[i%8] += n
			}
		}
	}
	return sum
}

func stateOf(t *testing.T, h http.Handler, query string) (s pageState) {
	t.Helper()
	w := get(t, h, "/debug/memory/state"+query)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	return s
}

// What is drawn adds up to the statistics, also when there are so many blocks that some are drawn together.
func TestHandler_WhatIsDrawnAddsUpToTheStatistics(t *testing.T) {
	for _, n := range []int{200, 30_000} {
		for _, conf := range []string{"", "expandable_segments:True"} {
			t.Run(fmt.Sprintf("%d blocks %s", n, conf), func(t *testing.T) { drawnAddsUp(t, n, conf) })
		}
	}
}

func drawnAddsUp(t *testing.T, n int, conf string) {
	t.Setenv("CISTERN_ALLOC_CONF", conf)
	dev := sim.New(40*device.GiB, sim.ManualStreams())
	alloc, err := memory.For(dev)
	require.NoError(t, err)
	t.Cleanup(func() { _ = memory.Drop(dev) })
	a := alloc.(*memory.Caching)
	for i := range n {
		b := weights(t, a, uint64(i%50+1)*(20+uint64(i%100/99)*40_000), dev.Stream(device.StreamID(i%2)))
		if i%5 == 0 {
			require.NoError(t, a.RecordStream(b, dev.Stream(7)))
		}
		if i%3 == 0 {
			require.NoError(t, a.Free(b))
		}
	}
	s := stateOf(t, memprof.Handler(), "")
	d, sum, stats := s.Drawing, s.Drawing.drawn(), a.Stats()
	size, count, allocated, pending, unmapped, requested := sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]
	require.Equal(t, stats.AllocatedBytes.All.Current, allocated)
	require.Equal(t, stats.ActiveBytes.All.Current, allocated+pending)
	require.Equal(t, stats.ReservedBytes.All.Current, size-unmapped)
	require.Equal(t, stats.RequestedBytes.All.Current, requested)
	require.Positive(t, pending)
	require.Equal(t, conf != "", unmapped > 0)
	require.Equal(t, []int64{allocated, pending, size - unmapped - allocated - pending, requested}, []int64{d.Allocated, d.Pending, d.Cached, d.Requested})
	require.GreaterOrEqual(t, count, int64(d.Blocks), "and unmapped ranges")
	require.Equal(t, n > 10_000, d.AddedUp > 0)
	bytes := int64(0)
	for _, site := range d.Sites {
		bytes += site.Bytes
	}
	require.Equal(t, stats.ActiveBytes.All.Current, bytes)
	require.Equal(t, stats.AllocatedBytes, s.Stats.AllocatedBytes)
	require.Equal(t, a.Stats().Summary(dev.ID(), false), s.Summary)
	require.NotNil(t, s.Usage)
}

func TestHandler_StateIsSmallWhereBlocksAreMany(t *testing.T) {
	dev := sim.New(40 * device.GiB)
	a, err := memory.For(dev)
	require.NoError(t, err)
	t.Cleanup(func() { _ = memory.Drop(dev) })
	for i := range 60_000 {
		weights(t, a, uint64(i%30+1)*512, dev.DefaultStream())
	}
	w := get(t, memprof.Handler(), "/debug/memory/state")
	require.Equal(t, http.StatusOK, w.Code)
	require.Less(t, w.Body.Len(), 2<<20)
}

func TestHandler_StateHasCallStacksAndSamples(t *testing.T) {
	dev, a := open(t)
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
	weights(t, a, 3*device.MiB, dev.DefaultStream())
	h := memprof.Handler()
	synctest.Test(t, func(t *testing.T) {
		first := stateOf(t, h, "")
		require.Equal(t, []string{dev.ID().String()}, first.Devices)
		require.True(t, first.Recording)
		require.False(t, first.Ours)
		require.Len(t, first.Samples, 1)
		require.Equal(t, int64(3<<20), first.Samples[0][1])
		site := first.Drawing.Sites[0]
		require.Equal(t, here+"weights", first.Drawing.Frames[first.Drawing.Stacks[site.Stack][0]].Name)
		require.Equal(t, first.Samples, stateOf(t, h, "").Samples, "made for all who ask at the same time")
		for range 10 {
			time.Sleep(time.Second)
			get(t, h, "/debug/memory/state")
		}
		samples := stateOf(t, h, "").Samples
		require.Len(t, samples, 11)
		require.Equal(t, first.Samples[0], samples[0])
		require.Empty(t, a.Snapshot().DeviceTraces[dev.ID().Index][2:], "the page writes nothing into the trace")
	})
}

// Between two samples nobody may have looked: then nothing is known of that time.
func TestHandler_SamplesSayWhenNobodyLooked(t *testing.T) {
	open(t)
	h := memprof.Handler()
	gaps := func() (list []int64) {
		samples := stateOf(t, h, "").Samples
		for i, s := range samples {
			if s[4] != 0 {
				list = append(list, s[0]-samples[i-1][0])
			}
		}
		return list
	}
	synctest.Test(t, func(t *testing.T) {
		watch := func(n int) {
			for range n {
				time.Sleep(time.Second)
				get(t, h, "/debug/memory/state")
			}
		}
		require.Empty(t, gaps(), "before the first there is nothing")
		watch(10)
		require.Empty(t, gaps())
		time.Sleep(99 * time.Second)
		watch(10)
		time.Sleep(299 * time.Second)
		watch(10)
		require.Equal(t, []int64{100e6, 300e6}, gaps())
	})
}

func TestHandler_StateHasTheLimit(t *testing.T) {
	dev := sim.New(device.GiB)
	a, err := memory.For(dev)
	require.NoError(t, err)
	t.Cleanup(func() { _ = memory.Drop(dev) })
	require.Zero(t, stateOf(t, memprof.Handler(), "").Limit)
	a.(*memory.Caching).SetMemoryLimit(100 * device.MiB)
	require.EqualValues(t, 100*device.MiB, stateOf(t, memprof.Handler(), "").Limit)
}

// firstOf is the state that the page comes with.
func firstOf(t *testing.T, page string) (s pageState) {
	t.Helper()
	_, rest, ok := strings.Cut(page, `<script type="application/json" id="first">`)
	require.True(t, ok)
	text, _, _ := strings.Cut(rest, "</script>")
	require.NoError(t, json.Unmarshal([]byte(text), &s))
	return s
}

// The page comes with what it would ask for first.
func TestHandler_PageHasAFirstState(t *testing.T) {
	require.Empty(t, firstOf(t, get(t, memprof.Handler(), "/").Body.String()).Devices, "without devices")
	dev, a := open(t)
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
	weights(t, a, 3*device.MiB, dev.DefaultStream())
	h := memprof.Handler()
	first := firstOf(t, get(t, h, "/").Body.String())
	require.Equal(t, dev.ID().String(), first.Device)
	require.EqualValues(t, 3*device.MiB, first.Drawing.drawn()[2])
	require.Len(t, first.Samples, 1)
	require.Empty(t, a.Snapshot().DeviceTraces[dev.ID().Index][2:], "the page writes nothing into the trace")
}

// Without a caching allocator there are statistics and no blocks.
func TestHandler_StateOfAnAllocatorWithoutBlocks(t *testing.T) {
	t.Setenv("CISTERN_NO_MEMORY_CACHING", "1")
	dev := sim.New(device.GiB)
	a, err := memory.For(dev)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, memory.Drop(dev)) })
	b := weights(t, a, 1000, dev.DefaultStream())
	s := stateOf(t, memprof.Handler(), "")
	require.True(t, s.Drawing == nil)
	require.Equal(t, a.Stats().AllocatedBytes, s.Stats.AllocatedBytes)
	require.Equal(t, http.StatusNotFound, post(t, memprof.Handler(), "/debug/memory/record?on=1").Code)
	require.NoError(t, a.Free(b))
}

func TestHandler_OtherPathsAreNotFound(t *testing.T) {
	open(t)
	mux := http.NewServeMux()
	mux.Handle("/debug/memory/", memprof.Handler())
	alone := memprof.Handler()
	for _, c := range []struct {
		h      http.Handler
		path   string
		status int
	}{
		{mux, "/debug/memory/", http.StatusOK},
		{mux, "/debug/memory/state", http.StatusOK},
		{mux, "/debug/memory/x", http.StatusNotFound},
		{mux, "/debug/memory/x/", http.StatusNotFound},
		{mux, "/debug/memory/favicon.ico", http.StatusNotFound},
		{mux, "/debug/memory/%3Cscript%3E", http.StatusNotFound},
		{alone, "/", http.StatusOK},
		{alone, "/state", http.StatusOK},
		{alone, "/robots.txt", http.StatusNotFound},
		{alone, "/state/x", http.StatusNotFound},
		{http.StripPrefix("/m", alone), "/m/", http.StatusOK},
	} {
		w := get(t, c.h, c.path)
		require.Equal(t, c.status, w.Code, c.path)
		if c.status == http.StatusNotFound {
			require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		}
	}
}

// The page is one file that asks nobody else, and runs nothing but its own script.
func TestHandler_PageIsOneFileWithAPolicy(t *testing.T) {
	w := get(t, memprof.Handler(), "/")
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	page, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	selfContained(t, page)
	require.NotContains(t, policy, "unsafe")
	for _, part := range []string{"default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
		require.Contains(t, policy, part)
	}
	for _, element := range []string{"script", "style"} {
		require.Equal(t, 1, strings.Count(page, "<"+element+">"), "of %s", element)
		_, rest, _ := strings.Cut(page, "<"+element+">")
		content, _, _ := strings.Cut(rest, "</"+element+">")
		sum := sha256.Sum256([]byte(content))
		require.Contains(t, policy, element+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	require.NotContains(t, page, "innerHTML", "texts come in as text")
	require.NotContains(t, page, "document.write")
	require.NotRegexp(t, regexp.MustCompile(`\son[a-z]+="`), page, "handlers in attributes do not run under the policy")
}

func selfContained(t *testing.T, page string) {
	t.Helper()
	for _, reference := range []string{"http://", "https://", "src=", "@import", "url("} {
		require.NotContains(t, page, reference)
	}
}

func TestHandler_FileIsThePageWithData(t *testing.T) {
	dev, a := open(t)
	weights(t, a, 3*device.MiB, dev.DefaultStream())
	text := get(t, memprof.Handler(), "/snapshot.html").Body.String()
	selfContained(t, text)
	require.Contains(t, text, `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-`)
	_, rest, ok := strings.Cut(text, `<script type="application/json" id="data">`)
	require.True(t, ok)
	data, _, _ := strings.Cut(rest, "</script>")
	var d pageDrawing
	require.NoError(t, json.Unmarshal([]byte(data), &d))
	require.Equal(t, int64(3<<20), d.drawn()[2])
}

// A recording for the page begins and ends by a POST that no other site's page makes.
func TestHandler_RecordsForThePage(t *testing.T) {
	dev, a := open(t)
	h := memprof.Handler()
	for _, c := range []struct {
		method, target string
		headers        []string
		status         int
	}{
		{http.MethodGet, "/record?on=1", nil, http.StatusMethodNotAllowed},
		{http.MethodHead, "/record?on=1", nil, http.StatusMethodNotAllowed},
		{http.MethodPost, "/record?on=1", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{http.MethodPost, "/record?on=1", []string{"Origin", "http://other"}, http.StatusForbidden},
		{http.MethodPost, "/record?on=2", nil, http.StatusBadRequest},
		{http.MethodPost, "/record", nil, http.StatusBadRequest},
		{http.MethodPost, "/record?on=1&device=cuda:7", nil, http.StatusNotFound},
		{http.MethodPost, "/record?on=0", nil, http.StatusNoContent},
	} {
		require.Equal(t, c.status, ask(t, h, c.method, c.target, c.headers...).Code, "%s %s", c.method, c.target)
		require.False(t, a.HistoryEnabled())
	}
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, http.StatusNoContent, ask(t, h, http.MethodPost, "/record?on=1", "Sec-Fetch-Site", "same-origin").Code)
		require.Equal(t, http.StatusNoContent, post(t, h, "/record?on=1").Code, "once is enough")
		require.True(t, a.HistoryEnabled())
		require.True(t, stateOf(t, h, "").Ours)
		weights(t, a, 1000, dev.DefaultStream())
		require.Contains(t, get(t, h, "/history").Body.String(), "weights")
		require.Equal(t, http.StatusNoContent, post(t, h, "/record?on=0").Code)
		require.False(t, a.HistoryEnabled())
		require.False(t, stateOf(t, h, "").Ours)

		post(t, h, "/record?on=1")
		time.Sleep(9 * time.Minute)
		require.True(t, a.HistoryEnabled())
		time.Sleep(61 * time.Second)
		require.False(t, a.HistoryEnabled(), "nobody ended it")
		require.False(t, stateOf(t, h, "").Ours)

		require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
		post(t, h, "/record?on=1")
		post(t, h, "/record?on=0")
		require.True(t, a.HistoryEnabled(), "the program's own")
	})
}

// Texts of the program, whatever is in them, end neither the data of a file nor an answer.
func TestHandler_TextsCannotEndTheirElement(t *testing.T) {
	const evil = `</script><script>alert("x")</script><!--`
	frames := []memory.Frame{{Filename: evil + ".go", Line: 1, Name: evil}}
	s := memory.Snapshot{Segments: []memory.SegmentInfo{{TotalSize: 512, Frames: frames,
		Blocks: []memory.BlockInfo{{Size: 512, RequestedSize: 1, State: memory.ActiveAllocated, Frames: frames}}}}}
	var page bytes.Buffer
	require.NoError(t, s.WriteHTML(&page))
	require.NotContains(t, page.String(), "<script>alert")
	require.NotContains(t, page.String(), "</script><script>")
	require.Equal(t, 2, strings.Count(page.String(), "</script>"), "the data and the script")
	require.Contains(t, page.String(), `\u003c/script\u003e`)
	open(t)
	w := get(t, memprof.Handler(), "/state?device="+"%3Cscript%3E")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
}

// Many pages at a time are served, from few states.
func TestHandler_ManyPagesAtOnce(t *testing.T) {
	dev, a := open(t)
	weights(t, a, 1000, dev.DefaultStream())
	server := httptest.NewServer(memprof.Handler())
	defer server.Close()
	var wg sync.WaitGroup
	codes := make([]int, 60)
	for i := range codes {
		wg.Go(func() {
			resp, err := server.Client().Get(server.URL + "/state")
			if err != nil {
				return
			}
			defer func() { _ = resp.Body.Close() }()
			if text, err := io.ReadAll(resp.Body); err == nil && json.Valid(text) {
				codes[i] = resp.StatusCode
			}
		})
	}
	wg.Wait()
	for _, code := range codes {
		require.Equal(t, http.StatusOK, code)
	}
}

// What a state of 100,000 blocks costs, text and all.
func BenchmarkHandler_State(b *testing.B) {
	dev := sim.New(8 * device.GiB)
	a, err := memory.For(dev)
	require.NoError(b, err)
	defer func() { _ = memory.Drop(dev) }()
	for i := range 100_000 {
		if _, err := a.Alloc(uint64(i%7+1)*512, dev.DefaultStream()); err != nil {
			b.Fatal(err)
		}
	}
	size := 0
	for b.Loop() {
		w := httptest.NewRecorder()
		memprof.Handler().ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/state", nil))
		size = w.Body.Len()
	}
	b.ReportMetric(float64(size), "bytes")
}
