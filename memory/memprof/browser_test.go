package memprof_test

import (
	"bytes"
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memprof"
)

// browse opens an address in a browser without a window, and returns the document as it is after some seconds of the browser's time.
func browse(t *testing.T, address string) string {
	t.Helper()
	var browser string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("NO BROWSER: the page is not looked at. With chromium or google-chrome in the PATH it would be")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--user-data-dir="+t.TempDir(), "--window-size=1200,1600", "--virtual-time-budget=7500", "--dump-dom", address)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	return string(out)
}

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
