package memprof

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/memory"
)

// maxSeconds is how long a request may have history recorded for it.
const maxSeconds = 600

// Handler serves the allocators of this process, which memory.For has made, under whatever path ends in these:
//
//	                 an overview
//	summary          the table of torch.cuda.memory_summary
//	stats            the statistics as JSON
//	snapshot.pickle  for PyTorch's memory viewer
//	snapshot.json    the same as JSON, which the viewer opens too
//	profile          for go tool pprof
//
// All but the overview take ?device=cuda:1; the first device is taken without. With ?seconds=10 a snapshot or profile is taken
// after so many seconds, and if no history is being recorded, it is for that time. One such request is served at a time.
//
// Like net/http/pprof, it is for those who may know how the program works: do not serve it to everybody.
func Handler() http.Handler { return &handler{} }

type handler struct {
	recording sync.Mutex // held by the request that waits
}

// httpError is an answer that is not 200.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch name := path.Base(r.URL.Path); name {
	case "summary":
		err = summary(w, r)
	case "stats":
		err = stats(w, r)
	case "snapshot.pickle", "snapshot.json", "profile":
		err = h.snapshot(w, r, name)
	default:
		err = overview(w)
	}
	if e, ok := err.(*httpError); ok {
		http.Error(w, e.text, e.status)
	}
	// Other errors are of the connection: there is nobody to tell.
}

// allocator finds the allocator that a request is about.
func allocator(r *http.Request) (memory.Allocator, error) {
	want := r.FormValue("device")
	for _, a := range memory.Allocators() {
		if want == "" || a.Device().String() == want {
			return a, nil
		}
	}
	return nil, &httpError{http.StatusNotFound, fmt.Sprintf("no allocator of device %q", want)}
}

func summary(w http.ResponseWriter, r *http.Request) error {
	a, err := allocator(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = fmt.Fprint(w, a.Stats().Summary(a.Device(), r.FormValue("abbreviated") != ""))
	return err
}

func stats(w http.ResponseWriter, r *http.Request) error {
	a, err := allocator(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(a.Stats())
}

// snapshot serves a snapshot in the form that name says.
func (h *handler) snapshot(w http.ResponseWriter, r *http.Request, name string) error {
	a, err := allocator(r)
	if err != nil {
		return err
	}
	source, ok := a.(Snapshotter)
	if !ok {
		return &httpError{http.StatusNotFound, fmt.Sprintf("%s has no caching allocator", a.Device())}
	}
	stop, err := h.record(r, a)
	if err != nil {
		return err
	}
	s := source.Snapshot()
	stop()
	for _, p := range memory.PinnedAllocators() {
		if p.Device() == a.Device() {
			s.AddHost(p)
		}
	}
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	switch name {
	case "profile":
		w.Header().Set("Content-Type", "application/octet-stream")
		return Encode(w, s)
	case "snapshot.json":
		w.Header().Set("Content-Type", "application/json")
		return s.WriteJSON(w)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	return s.WritePickle(w)
}

// historian is what records history: memory.Caching.
type historian interface {
	RecordHistory(memory.HistoryOptions) error
	StopHistory()
	HistoryEnabled() bool
}

// record waits for the seconds of the request, if it has any, while history is recorded. stop must be called after the
// snapshot; it ends the recording if it was begun here.
func (h *handler) record(r *http.Request, a memory.Allocator) (stop func(), err error) {
	text := r.FormValue("seconds")
	if text == "" {
		return func() {}, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 || seconds > maxSeconds {
		return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("seconds=%s: want a number from 1 to %d", text, maxSeconds)}
	}
	c, ok := a.(historian)
	if !ok {
		return nil, &httpError{http.StatusNotFound, fmt.Sprintf("%s has no caching allocator", a.Device())}
	}
	if !h.recording.TryLock() {
		return nil, &httpError{http.StatusConflict, "history is being recorded for another request"}
	}
	stop = h.recording.Unlock
	if !c.HistoryEnabled() {
		if err := c.RecordHistory(memory.HistoryOptions{}); err != nil {
			stop()
			return nil, err
		}
		stop = func() { c.StopHistory(); h.recording.Unlock() }
	}
	timer := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return stop, nil
	case <-r.Context().Done():
		stop()
		return nil, r.Context().Err()
	}
}

// overview shows the summaries and links to everything.
func overview(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	var page strings.Builder
	page.WriteString("<!DOCTYPE html>\n<title>Device memory</title>\n<h1>Device memory</h1>\n")
	all := memory.Allocators()
	if len(all) == 0 {
		page.WriteString("<p>No device has an allocator yet.</p>\n")
	}
	for _, a := range all {
		id := html.EscapeString(a.Device().String())
		fmt.Fprintf(&page, "<h2>%s</h2>\n<p>%s</p>\n<p>", id, html.EscapeString(fmt.Sprint(a)))
		for _, name := range []string{"summary", "stats", "snapshot.pickle", "snapshot.json", "profile"} {
			fmt.Fprintf(&page, "<a href=\"%s?device=%s\">%s</a>\n", name, url.QueryEscape(a.Device().String()), name)
		}
		fmt.Fprintf(&page, "</p>\n<pre>%s</pre>\n", html.EscapeString(a.Stats().Summary(a.Device(), true)))
	}
	page.WriteString("<p>Snapshots open in <a href=\"https://docs.pytorch.org/memory_viz\">PyTorch's memory viewer</a>, " +
		"profiles with <code>go tool pprof</code>.</p>\n")
	_, err := io.WriteString(w, page.String())
	return err
}
