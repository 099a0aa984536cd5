package memprof

import (
	"bufio"
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

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/pinned"
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
// after so many seconds, and if no history is being recorded, it is for that time. One such request is served at a time. As it
// changes what the program does, it must be a POST, and must not come from the page of another site (http.CrossOriginProtection):
//
//	curl -X POST -o 10s.pickle 'http://localhost:6060/debug/memory/snapshot.pickle?seconds=10'
//
// Two snapshots or profiles are made at a time, and more are answered with 503: each is held in memory until the client has it.
// A client has half a minute for each piece, and five minutes for all.
//
// Like net/http/pprof, it is for those who may know how the program works: do not serve it to everybody.
func Handler() http.Handler { return &handler{origins: http.NewCrossOriginProtection()} }

type handler struct {
	origins   *http.CrossOriginProtection
	recording sync.Mutex // held by the request that waits
}

// snapshots are made at a time, by all handlers.
var snapshots = make(chan struct{}, 2)

// httpError is an answer that is not 200.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.allowed(r)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err == nil {
		err = h.serve(w, r)
	}
	if e, ok := err.(*httpError); ok {
		switch e.status {
		case http.StatusMethodNotAllowed:
			w.Header().Set("Allow", "GET, HEAD, POST")
		case http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, e.text, e.status)
	}
	// Other errors are of the connection: there is nobody to tell.
}

// allowed says why a request is refused whatever it is for.
func (h *handler) allowed(r *http.Request) error {
	if err := h.origins.Check(r); err != nil {
		return &httpError{http.StatusForbidden, err.Error()}
	}
	switch r.Method {
	case http.MethodPost:
		return nil
	case http.MethodGet, http.MethodHead:
		if r.URL.Query().Get("seconds") == "" {
			return nil
		}
		return &httpError{http.StatusMethodNotAllowed, "seconds: recording history needs a POST"}
	}
	return &httpError{http.StatusMethodNotAllowed, "want GET, HEAD or POST"}
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	switch name := path.Base(r.URL.Path); name {
	case "summary":
		return summary(w, r)
	case "stats":
		return stats(w, r)
	case "snapshot.pickle", "snapshot.json", "profile":
		return h.snapshot(w, r, name)
	}
	return overview(w)
}

// allocator finds the allocator that a request is about.
func allocator(r *http.Request) (memory.Allocator, error) {
	want := r.URL.Query().Get("device")
	for _, a := range memory.Allocators() {
		if want == "" || a.Device().String() == want {
			return a, nil
		}
	}
	return nil, &httpError{http.StatusNotFound, fmt.Sprintf("no allocator of device %q", excerpt.Of(want))}
}

func summary(w http.ResponseWriter, r *http.Request) error {
	a, err := allocator(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = fmt.Fprint(w, a.Stats().Summary(a.Device(), r.URL.Query().Get("abbreviated") != ""))
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
	s, err := h.take(w, r, source, a)
	if err != nil {
		return err
	}
	defer func() { <-snapshots }()
	for _, p := range pinned.Allocators() {
		if p.Device() == a.Device() {
			p.AddTo(&s)
		}
	}
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	if name == "snapshot.json" {
		w.Header().Set("Content-Type", "application/json")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	out := bufio.NewWriterSize(newPatient(w), pieceBytes)
	switch name {
	case "profile":
		err = Encode(out, s)
	case "snapshot.json":
		err = s.WriteJSON(out)
	default:
		err = s.WritePickle(out)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// take takes a snapshot, after the seconds of the request. If it succeeds, the caller holds one of snapshots.
func (h *handler) take(w http.ResponseWriter, r *http.Request, source Snapshotter, a memory.Allocator) (s memory.Snapshot, err error) {
	stop, err := h.record(w, r, a)
	if err != nil {
		return s, err
	}
	defer stop()
	if r.URL.Query().Get("seconds") == "" {
		select {
		case snapshots <- struct{}{}:
		default:
			return s, &httpError{http.StatusServiceUnavailable, "snapshots are being made for others"}
		}
	} else { // what was recorded is worth waiting for
		select {
		case snapshots <- struct{}{}:
		case <-r.Context().Done():
			return s, r.Context().Err()
		}
	}
	taken := false
	defer func() {
		if !taken {
			<-snapshots
		}
	}()
	s = source.Snapshot()
	taken = true
	return s, nil
}

// historian is what records history: memory.Caching.
type historian interface {
	ShareHistory(memory.HistoryOptions) (stop func(), err error)
}

// record waits for the seconds of the request, if it has any, while history is recorded. stop must be called after the
// snapshot; it ends the recording if nobody else wants it.
func (h *handler) record(w http.ResponseWriter, r *http.Request, a memory.Allocator) (stop func(), err error) {
	text := r.URL.Query().Get("seconds")
	if text == "" {
		return func() {}, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 || seconds > maxSeconds {
		return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("seconds=%.20q: want a number from 1 to %d", text, maxSeconds)}
	}
	c, ok := a.(historian)
	if !ok {
		return nil, &httpError{http.StatusNotFound, fmt.Sprintf("%s has no caching allocator", a.Device())}
	}
	if !h.recording.TryLock() {
		return nil, &httpError{http.StatusConflict, "history is being recorded for another request"}
	}
	end, err := c.ShareHistory(memory.HistoryOptions{})
	if err != nil {
		h.recording.Unlock()
		return nil, err
	}
	stop = func() { end(); h.recording.Unlock() }
	wait := time.Duration(seconds) * time.Second
	// The server's own limit may be shorter than the wait, and cannot be moved once it is passed.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + pieceTime))
	timer := time.NewTimer(wait)
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
