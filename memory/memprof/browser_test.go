package memprof_test

import (
	"bytes"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memprof"
)

// plain is what a document shows, with plain spaces.
func plain(document string) string {
	return strings.ReplaceAll(html.UnescapeString(document), "\u00a0", " ")
}

// textOf is the text of the element with an id.
func textOf(t *testing.T, document, id string) string {
	t.Helper()
	_, rest, ok := strings.Cut(document, `id="`+id+`"`)
	require.True(t, ok, "no %s in %.2000s", id, document)
	_, rest, _ = strings.Cut(rest, ">")
	text, _, _ := strings.Cut(rest, "</pre>")
	return plain(text)
}

// driven serves the page with a script of the test behind its own, which the page's policy would not let run.
func driven(h http.Handler, script string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			h.ServeHTTP(w, r)
			return
		}
		page := httptest.NewRecorder()
		h.ServeHTTP(page, r)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(withDriver(page.Body.String(), script)))
	})
}

func withDriver(page, script string) string {
	return strings.Replace(page, "</body>", `<pre id="results"></pre><script>
const $ = id => document.getElementById(id), later = (ms, f) => setTimeout(() => { try { f(); } catch (e) { note('error', e); } }, ms);
const note = (name, value) => { $('results').textContent += name + ': ' + String(value).replace(/\s+/g, ' ') + '\n'; };
const asked = () => performance.getEntriesByType('resource').filter(e => e.name.includes('/state')).length;
const at = (canvas, x, y) => { const b = canvas.getBoundingClientRect(); return {clientX: b.left + x * b.width, clientY: b.top + y, pointerType: 'mouse', bubbles: true}; };
const move = (canvas, x, y) => canvas.dispatchEvent(new PointerEvent('pointermove', at(canvas, x, y)));
const click = (canvas, x, y) => canvas.dispatchEvent(new MouseEvent('click', at(canvas, x, y)));
const press = (e, key) => e.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
`+script+"</script></body>", 1)
}

// runner makes a program's memory: three large blocks in a row, of which the second is free and the third waits.
func runner(t *testing.T) *memory.Caching {
	dev := sim.New(8*device.GiB, sim.ManualStreams())
	alloc, err := memory.For(dev)
	require.NoError(t, err)
	t.Cleanup(func() { _ = memory.Drop(dev) })
	a, s := alloc.(*memory.Caching), dev.DefaultStream()
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
	weights(t, a, 5*device.MiB-100, s)
	free := activations(t, a, 5*device.MiB, s)
	waits := activations(t, a, 5*device.MiB, s)
	activations(t, a, 5*device.MiB, s)
	require.NoError(t, a.RecordStream(waits, dev.Stream(3)))
	require.NoError(t, a.Free(free))
	require.NoError(t, a.Free(waits))
	return a
}

// Under its policy the page's script runs, and shows what the statistics say.
func TestBrowser_PageShowsTheState(t *testing.T) {
	a := runner(t)
	server := httptest.NewServer(memprof.Handler())
	defer server.Close()
	document := browse(t, server.URL+"/")
	text := plain(document)
	for _, want := range []string{">10 MiB<", ">20 MiB<", "Large pool, stream 0", "1 segment · 20 MiB · 50 % allocated", "memprof_test.weights memprof_test.go",
		"waiting 5 MiB", "8 GiB, 100 % free", "the program records it"} {
		require.Contains(t, text, want)
	}
	require.Contains(t, text, a.Stats().Summary(a.Device(), false))
	require.Contains(t, text, `<span id="status" class="small muted live"`)
}

// Mouse, finger and keys find the blocks; the page asks again until it is paused or not seen.
func TestBrowser_PageIsUsed(t *testing.T) {
	runner(t)
	server := httptest.NewServer(driven(memprof.Handler(), `
later(1500, () => {
  const c = document.querySelector('#groups canvas');
  move(c, 0.1, 5); note('hover', $('tip').textContent);
  click(c, 0.6, 5); note('tap', $('chosen').textContent);
  press(c, 'ArrowLeft'); note('left', $('chosen').textContent);
  press(c, 'Home'); note('home', $('chosen').textContent);
  $('show').click();
});
later(3600, () => {
  note('then', $('chosen').textContent);
  note('asked', asked() > 1);
  note('bands', $('bandlegend').textContent);
  click($('bands'), 0.99, 200); note('moment', $('maptitle').textContent);
  press($('bands'), 'ArrowLeft'); note('before', $('maptitle').textContent + ' ' + $('groups').textContent);
  $('now').click(); note('now', $('maptitle').textContent);
  $('pause').click();
  window.before = asked();
});
later(5600, () => {
  note('paused', asked() === window.before);
  Object.defineProperty(document, 'hidden', {value: true, configurable: true});
  $('pause').click();
  note('hidden', asked() === window.before);
});
later(6500, () => note('end', asked() === window.before));
`))
	defer server.Close()
	results := textOf(t, browse(t, server.URL+"/"), "results")
	for _, want := range []string{
		"hover: 5 MiB allocated5.00 MiB requested (5,242,780 bytes)",
		"tap: 5 MiB waiting for another stream",
		"left: 5 MiB free, cached",
		"home: 5 MiB allocated5.00 MiB requested (5,242,780 bytes)", "then: 5 MiB allocated5.00 MiB requested (5,242,780 bytes)here for at least ",
		"memprof_test.weights", "asked: true",
		"bands: ", "moment: Segments and blocks after event", "Large pool, stream 0",
		"now: Segments and blocks\n", "paused: true", "hidden: true", "end: true",
	} {
		require.Contains(t, results, want)
	}
	require.NotContains(t, results, "error:")
}

// The button begins a recording, and ends it.
func TestBrowser_ButtonRecords(t *testing.T) {
	a := runner(t)
	a.StopHistory()
	server := httptest.NewServer(driven(memprof.Handler(), `
later(1500, () => { note('first', $('record').textContent + ', ' + $('rectext').textContent); $('record').click(); });
later(3500, () => note('then', $('record').textContent + ', ' + $('rectext').textContent));
`))
	defer server.Close()
	results := textOf(t, browse(t, server.URL+"/"), "results")
	require.Contains(t, results, "first: Record, none is recorded")
	require.Contains(t, results, "then: Stop recording, being recorded for this page")
	require.True(t, a.HistoryEnabled())
}

func TestBrowser_PageWithoutDevices(t *testing.T) {
	server := httptest.NewServer(memprof.Handler())
	defer server.Close()
	document := browse(t, server.URL+"/")
	require.Contains(t, document, `<section id="empty"><h2>No device has an allocator yet`)
	require.Contains(t, document, `<section id="map" hidden="">`)
}

// A file is drawn without a server, and what is in its texts does not run.
func TestBrowser_FileIsDrawn(t *testing.T) {
	a := runner(t)
	const evil = `</script><script>document.title = 'taken'</script><img src=x onerror="document.title = 'taken'">`
	s := a.Snapshot()
	for i := range s.Segments {
		for j := range s.Segments[i].Blocks {
			if frames := s.Segments[i].Blocks[j].Frames; len(frames) > 0 {
				frames[0].Name = evil
			}
		}
	}
	var page bytes.Buffer
	require.NoError(t, s.WriteHTML(&page))
	file := filepath.Join(t.TempDir(), "snapshot.html")
	address := (&url.URL{Scheme: "file", Path: file}).String()
	require.NoError(t, os.WriteFile(file, page.Bytes(), 0o600))
	document := browse(t, address)
	require.Contains(t, document, "<title>Device memory, sim")
	require.Contains(t, plain(document), "1 segment · 20 MiB · 50 % allocated")
	require.Contains(t, document, "&lt;/script&gt;&lt;script&gt;document.title")

	// What the history says of each moment: the segment and its blocks as they were then.
	before, rest, _ := strings.Cut(page.String(), `<meta http-equiv="Content-Security-Policy"`)
	_, rest, _ = strings.Cut(rest, ">")
	require.NoError(t, os.WriteFile(file, []byte(withDriver(before+rest, `
later(500, () => {
  press($('bands'), 'Home');
  for (let i = 0; i < 12; i++) { press($('bands'), 'ArrowLeft'); note('moment', $('maptitle').textContent + ' ' + $('groups').textContent); }
});
`)), 0o600))
	results := textOf(t, browse(t, address), "results")
	for _, want := range []string{ // segment_alloc, 4 alloc, free_requested, free_completed, free_requested
		"after event 7, at", "1 segment · 20 MiB · 75 % allocated",
		"after event 6, at", "1 segment · 20 MiB · 100 % allocated",
		"after event 1, at", "1 segment · 20 MiB · 0.0 % allocated",
	} {
		require.Contains(t, results, want)
	}
	require.NotContains(t, results, "error:")
}

// openFile draws a snapshot's file, with a script of the test behind the page's own, and returns the script's notes.
func openFile(t *testing.T, s memory.Snapshot, script string) string {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, s.WriteHTML(&page))
	before, rest, _ := strings.Cut(page.String(), `<meta http-equiv="Content-Security-Policy"`)
	_, rest, _ = strings.Cut(rest, ">")
	file := filepath.Join(t.TempDir(), "snapshot.html")
	require.NoError(t, os.WriteFile(file, []byte(withDriver(before+rest, script)), 0o600))
	results := textOf(t, browse(t, (&url.URL{Scheme: "file", Path: file}).String()), "results")
	require.NotContains(t, results, "error:")
	return results
}

// stackAt is a call stack of an operation that a line of net.go began, as another program recorded it.
func stackAt(line int, operation string) []memory.Frame {
	const lib, file = "github.com/cistern-ml/cistern/", "/go/cistern/"
	return []memory.Frame{
		{Filename: file + "tensor/elementwise.go", Line: 14, Name: operation},
		{Filename: file + "tensor/elementwise.go", Line: 14, Name: lib + "tensor.pointwise"},
		{Filename: "<autogenerated>", Line: 1, Name: lib + "autograd.(*batchNorm).forward"},
		{Filename: "/home/user/net.go", Line: line, Name: "main.forward"},
	}
}

// Who holds memory is told by the program's lines, all of it, in colours that are the same everywhere and stand for one line each.
func TestBrowser_SitesAreThePrograms(t *testing.T) {
	seg := memory.SegmentInfo{Type: "large"}
	for i := range 40 {
		size := uint64(40-i) * device.MiB
		seg.Blocks = append(seg.Blocks, memory.BlockInfo{Address: device.Ptr(1<<32 + seg.TotalSize), Size: size, RequestedSize: size, State: memory.ActiveAllocated,
			Frames: stackAt(100+i, "relu (down.0)")})
		seg.TotalSize += size
	}
	seg.Blocks[3].State = memory.ActivePendingFree
	seg.Address = seg.Blocks[0].Address
	results := openFile(t, memory.Snapshot{Segments: []memory.SegmentInfo{seg}}, `
later(300, () => {
  note('first', $('siterows').rows[0].innerText);
  note('rows', $('siterows').rows.length);
  note('more', $('siterows').rows[25].innerText);
  note('sum', $('sitesum').innerText);
  note('state', $('maplegend').innerText);
  $('by').value = 'site'; $('by').dispatchEvent(new Event('change'));
  note('site', $('maplegend').innerText);
  const legend = [...$('maplegend').children].map(e => getComputedStyle(e.firstChild).backgroundColor).slice(0, 12);
  note('colours', new Set(legend).size);
  const bar = i => getComputedStyle($('siterows').rows[i].querySelector('.part div div')).backgroundColor;
  note('same', bar(0) === legend[0] && bar(11) === legend[11] && bar(12) === bar(24) && !legend.includes(bar(24)));
  const c = document.querySelector('#groups canvas'), p = c.getContext('2d').getImageData(3, 10, 1, 1).data;
  note('drawn', 'rgb(' + p[0] + ', ' + p[1] + ', ' + p[2] + ')' === legend[0]);
  move(c, 0.01, 5); note('hover', $('tip').innerText);
  $('siterows').querySelector('button').click();
  note('all', $('siterows').rows.length);
  $('by').value = 'stream'; $('by').dispatchEvent(new Event('change'));
  note('stream', $('maplegend').innerText);
});
`)
	for _, want := range []string{
		"first: main.forward net.go:100 for relu (down.0) 5.1 % 40 MiB 1 –", "rows: 26\n",
		"more: … 15 more", "105 MiB 14 37 MiB", // what waits holds nothing, and so comes last
		"sum: Allocated 100 % 783 MiB 39 37 MiB",
		"state: allocated waiting for another stream free, cached unmapped",
		"site: main.forward net.go:100 40 MiB main.forward net.go:101 39 MiB main.forward net.go:102 38 MiB", "28 other call sites waiting",
		"colours: 12\n", "same: true", "drawn: true", "hover: 40 MiB allocated", "main.forward net.go:100 for relu (down.0)",
		"all: 40\n", "stream: stream 0 waiting",
	} {
		require.Contains(t, results, want)
	}
	require.NotContains(t, results, "elementwise.go")
	require.NotContains(t, results, "autogenerated")
}

// Zoomed out over many events, the history keeps a peak of one event, in full colour, the requests that failed, and what was reserved.
func TestBrowser_HistoryKeepsItsPeaks(t *testing.T) {
	const at = device.Ptr(1 << 32)
	frames, now := stackAt(26, "relu"), int64(0)
	var trace []memory.TraceEntry
	event := func(action memory.Action, ptr device.Ptr, size uint64) {
		now += 100
		trace = append(trace, memory.TraceEntry{Action: action, Addr: ptr, Size: size, TimeUS: now, Frames: frames})
	}
	cycle := func(ptr device.Ptr, size uint64) {
		event("alloc", ptr, size)
		event("free_requested", ptr, size)
		event("free_completed", ptr, size)
	}
	event("segment_alloc", at, 100*device.MiB)
	for i := range 30_000 {
		cycle(at, device.MiB)
		if i == 15_000 {
			cycle(at, 80*device.MiB)
		}
		if i == 22_500 {
			trace = append(trace, memory.TraceEntry{Action: memory.ActionOOM, DeviceFree: 5 * device.MiB, Size: 300 * device.MiB, TimeUS: now, Frames: frames})
		}
	}
	event("alloc", at, 2*device.MiB)
	s := memory.Snapshot{DeviceTraces: [][]memory.TraceEntry{trace}, Segments: []memory.SegmentInfo{{Address: at, TotalSize: 100 * device.MiB, Type: "large", Blocks: []memory.BlockInfo{
		{Address: at, Size: 2 * device.MiB, RequestedSize: 2 * device.MiB, State: memory.ActiveAllocated, Frames: frames},
		{Address: at.Add(2 * device.MiB), Size: 98 * device.MiB, State: memory.Inactive}}}}}
	results := openFile(t, s, `
later(300, () => {
  const c = $('bands'), g = c.getContext('2d'), w = c.width, h = c.height, left = 66, wide = w - 76, high = h - 32;
  const colour = getComputedStyle($('bandlegend').children[0].firstChild).backgroundColor;
  const tall = x => { let n = 0; const d = g.getImageData(x, 8, 1, high).data; for (let i = 0; i < d.length; i += 4) if ('rgb(' + d[i] + ', ' + d[i + 1] + ', ' + d[i + 2] + ')' === colour) n++; return n; };
  let most = 0, column = 0, low = 1e9;
  for (let x = left + 2; x < left + wide - 2; x++) { const n = tall(x); if (n > most) { most = n; column = x; } low = Math.min(low, n); }
  note('peak', Math.round(100 * 1.05 * most / high) + ' MiB in the middle ' + (Math.abs(column - left - wide / 2) < 3));
  note('everywhere', low > 0);
  note('legend', $('bandlegend').innerText);
  note('note', $('bandnote').innerText);
  const place = (left + wide * 0.75) / w;
  move(c, place, 100); note('oom', $('tip').innerText);
  note('before', $('tiles').innerText);
  click(c, (column + 0.5) / w, 150);
  note('moment', $('whentext').innerText + ' ' + $('tiles').innerText + ' ' + $('sitesum').innerText + ' ' + $('sitenote').innerText);
  $('back').click();
  note('after', $('tiles').innerText + ' ' + $('when').hidden);
  click(c, place, 150); note('failed', $('bandchosen').innerText);
});
`)
	for _, want := range []string{
		"peak: 80 MiB in the middle true", "everywhere: true", "legend: main.forward net.go:26 reserved 1 × out of memory",
		"oom: out of memory: 300 MiB asked for 5 MiB were free on the device, 100 MiB in the cache",
		"before: Allocated 2 MiB", "moment: After event 45,005, at 4.5 s Allocated 80 MiB 80 % of reserved", "Allocated 100 % 80 MiB 1", "At the chosen moment",
		"after: Allocated 2 MiB", "true", "failed: out of memory: 300 MiB asked for",
	} {
		require.Contains(t, results, want)
	}
}

// Where call stacks are kept with the blocks there are, and not in the trace, a block that is there still has its colour, and of the others it is not said
// that they were there before.
func TestBrowser_HistoryWithoutStacks(t *testing.T) {
	dev := sim.New(device.GiB)
	other, err := memory.For(dev)
	require.NoError(t, err)
	t.Cleanup(func() { _ = memory.Drop(dev) })
	c := other.(*memory.Caching)
	require.NoError(t, c.RecordHistory(memory.HistoryOptions{Context: memory.ContextState}))
	weights(t, c, 5*device.MiB, dev.DefaultStream())
	gone := activations(t, c, 3*device.MiB, dev.DefaultStream())
	require.NoError(t, c.Free(gone))
	results := openFile(t, c.Snapshot(), `
later(300, () => {
  note('legend', $('bandlegend').innerText);
  note('note', $('bandnote').innerText);
});
`)
	require.Contains(t, results, "legend: memprof_test.weights memprof_test.go:")
	require.Contains(t, results, "no call stack recorded reserved")
	require.Contains(t, results, "note: 5 events in ")
	require.Contains(t, results, "The recording keeps no call stacks of blocks that are gone (HistoryOptions.Context).")
}

// The page draws before it has asked, and says for which times nothing is known.
func TestBrowser_FirstDrawingAndGaps(t *testing.T) {
	runner(t)
	now := time.Now().UnixMicro()
	samples := fmt.Sprintf(`"samples":[[%d,1000,1000,9000,0],[%d,1000,1000,9000,0],[%d,2000,2000,9000,1],[%d,2000,2000,9000,0]]`, now-100e6, now-90e6, now-10e6, now)
	crafted := regexp.MustCompile(`"samples":\[\[[^a-z]*\]\]`)
	h := memprof.Handler()
	server := httptest.NewServer(driven(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		page := httptest.NewRecorder()
		h.ServeHTTP(page, r)
		_, _ = w.Write(crafted.ReplaceAll(page.Body.Bytes(), []byte(samples)))
	}), `
later(0, () => {
  note('first', $('tiles').innerText + ' ' + $('status').innerText + ' ' + asked());
  note('legend', $('over').innerText);
  move($('line'), 0.5, 60); note('gap', $('tip').innerText);
  move($('line'), 0.98, 60); note('sample', $('tip').innerText);
});
later(3000, () => note('then', $('status').innerText));
`))
	defer server.Close()
	results := textOf(t, browse(t, server.URL+"/"), "results")
	for _, want := range []string{"first: Allocated 10 MiB", "live 0\n", "not watched: no page was open", "the device 8 GiB, above this picture",
		"gap: not watched from 1 min 30 s to 10 s ago", "sample: 0 µs ago", "then: no answer"} {
		require.Contains(t, results, want)
	}
	require.NotContains(t, results, "error:")
}
