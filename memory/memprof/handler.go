package memprof

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/viewer"
	"github.com/cistern-ml/cistern/memory/pinned"
)

// maxSeconds is how long a request may have history recorded for it.
const maxSeconds = 600

// Handler serves the allocators of this process, which memory.For has made, under whatever path ends in these:
//
//	                 a page that draws all of it and stays up to date
//	summary          the table of torch.cuda.memory_summary
//	stats            the statistics as JSON
//	snapshot.html    a page like this one as a file, with the history
//	snapshot.pickle  for PyTorch's memory viewer
//	snapshot.json    the same as JSON, which the viewer opens too
//	profile          for go tool pprof
//	state, history   what the page asks for, in a form that may change
//	record           begins (?on=1) and ends (?on=0) a recording of history: a POST
//
// All but the page take ?device=cuda:1; the first device is taken without. Other paths are answered with 404. The page works
// without network, and asks only this handler: it comes with a first state, and asks once a second while it is seen. That holds no lock of an allocator for
// longer than it takes to look at some hundred blocks (memory.Caching.SnapshotInPieces). A recording that it began ends after ten minutes.
//
// With ?seconds=10 a snapshot or profile is taken after so many seconds, and if no history is being recorded, it is for that
// time. One such request is served at a time. As it changes what the program does, it must be a POST, like record, and must not come
// from the page of another site (http.CrossOriginProtection):
//
//	curl -X POST -o 10s.pickle 'http://localhost:6060/debug/memory/snapshot.pickle?seconds=10'
//
// Two snapshots or profiles are made at a time, and more are answered with 503: each is held in memory until the client has it.
// A client has half a minute for each piece, and five minutes for all.
//
// Like net/http/pprof, it is for those who may know how the program works: do not serve it to everybody.
func Handler() http.Handler {
	return &handler{origins: http.NewCrossOriginProtection(), watched: map[string]*watched{}}
}

type handler struct {
	origins   *http.CrossOriginProtection
	recording sync.Mutex // held by the request that waits

	mu      sync.Mutex          // held while a state is made: many pages share one
	watched map[string]*watched // by device
}

// snapshots are made at a time, by all handlers.
var snapshots = make(chan struct{}, 2)

// httpError is an answer that is not 200.
type httpError struct {
	status int
	text   string
	allow  string // the methods that there are, where the status is 405
}

func (e *httpError) Error() string { return e.text }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.allowed(r)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if err == nil {
		err = h.serve(w, r)
	}
	if e, ok := err.(*httpError); ok {
		switch e.status {
		case http.StatusMethodNotAllowed:
			w.Header().Set("Allow", e.allow)
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
		return &httpError{status: http.StatusForbidden, text: err.Error()}
	}
	_, name := path.Split(r.URL.Path)
	switch seconds := r.URL.Query().Get("seconds"); r.Method {
	case http.MethodPost:
		return nil
	case http.MethodGet, http.MethodHead:
		if seconds != "" && waits(name) {
			if _, err := secondsOf(seconds); err != nil { // with a POST it would be no better
				return err
			}
			return postOnly(fmt.Sprintf("%s?seconds=%s records history, which changes what the program does, and so needs a POST (curl -X POST)", name, seconds))
		}
		if name == "record" {
			return postOnly("record changes what the program does, and so needs a POST (curl -X POST)")
		}
		return nil
	}
	return &httpError{status: http.StatusMethodNotAllowed, text: fmt.Sprintf("the method is %q; want GET, HEAD or POST", excerpt.Of(r.Method)), allow: "GET, HEAD, POST"}
}

func postOnly(text string) error {
	return &httpError{status: http.StatusMethodNotAllowed, text: text, allow: http.MethodPost}
}

// secondsOf reads how long a snapshot is to be waited for.
func secondsOf(text string) (time.Duration, error) {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 || seconds > maxSeconds {
		return 0, &httpError{status: http.StatusBadRequest, text: fmt.Sprintf("seconds is %.20q, must be a whole number from 1 to %d", text, maxSeconds)}
	}
	return time.Duration(seconds) * time.Second, nil
}

// snapshotForms are what a snapshot is served as, besides history, which the page asks for.
var snapshotForms = []string{"snapshot.html", "snapshot.pickle", "snapshot.json", "profile"}

// waits reports whether what a path ends in is a snapshot, which may be taken after some seconds.
func waits(name string) bool { return name == "history" || slices.Contains(snapshotForms, name) }

// momentary is the error of seconds for what is of the moment.
func momentary(name string) error {
	last := len(snapshotForms) - 1
	return &httpError{status: http.StatusBadRequest, text: fmt.Sprintf("%s is of this moment, and takes no seconds; %s and %s can wait", name,
		strings.Join(snapshotForms[:last], ", "), snapshotForms[last])}
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	seconds := r.URL.Query().Get("seconds") != ""
	if isPage(r) {
		if seconds {
			return momentary("the page")
		}
		return h.page(w, r)
	}
	_, name := path.Split(r.URL.Path)
	switch name {
	case "summary", "stats", "state", "record":
		if seconds {
			return momentary(name)
		}
	}
	switch name {
	case "summary":
		return summary(w, r)
	case "stats":
		return stats(w, r)
	case "state":
		return h.state(w, r)
	case "record":
		return h.record(w, r)
	}
	if waits(name) {
		return h.snapshot(w, r, name)
	}
	if name == "memory" && r.Method != http.MethodPost { // of /debug/memory/, without the slash, where no mux has seen to that
		http.Redirect(w, r, "memory/", http.StatusMovedPermanently)
		return nil
	}
	return &httpError{status: http.StatusNotFound, text: fmt.Sprintf("there is no %q here; there are summary, stats, %s, state, history and record", excerpt.Of(name),
		strings.Join(snapshotForms, ", "))}
}

// isPage reports whether a request is for the page: its path is the one that the handler is registered for, or, if that is not
// known, a folder.
func isPage(r *http.Request) bool {
	_, pattern, ok := strings.Cut(r.Pattern, "/")
	if pattern = "/" + pattern; ok && strings.HasSuffix(pattern, "/") && !strings.Contains(pattern, "{") && strings.HasPrefix(r.URL.Path, pattern) {
		return r.URL.Path == pattern
	}
	return r.URL.Path == "" || strings.HasSuffix(r.URL.Path, "/")
}

// page serves the page, with the state that it would ask for first, so that it has something to draw at once.
func (h *handler) page(w http.ResponseWriter, r *http.Request) error {
	first, err := h.stateFor(r)
	if err != nil {
		first = nil // the page asks itself, and says why it gets none
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", viewer.Policy())
	return viewer.WritePage(newPatient(w), first)
}

// allocator finds the allocator that a request is about.
func allocator(r *http.Request) (memory.Allocator, error) {
	want := r.URL.Query().Get("device")
	var have []string
	for _, a := range memory.Allocators() {
		if want == "" || a.Device().String() == want {
			return a, nil
		}
		have = append(have, a.Device().String())
	}
	if len(have) == 0 {
		return nil, &httpError{status: http.StatusNotFound, text: "no device has an allocator yet"}
	}
	return nil, &httpError{status: http.StatusNotFound, text: fmt.Sprintf("no allocator of device %q; there is one of %s", excerpt.Of(want), strings.Join(have, ", "))}
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

var contentTypes = map[string]string{"snapshot.html": "text/html; charset=utf-8", "snapshot.json": "application/json",
	"history": "application/json", "snapshot.pickle": "application/octet-stream", "profile": "application/octet-stream"}

// snapshot serves a snapshot in the form that name says.
func (h *handler) snapshot(w http.ResponseWriter, r *http.Request, name string) error {
	a, err := allocator(r)
	if err != nil {
		return err
	}
	source, ok := a.(Snapshotter)
	if !ok {
		return &httpError{status: http.StatusNotFound, text: fmt.Sprintf("%s has no caching allocator", a.Device())}
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
	w.Header().Set("Content-Type", contentTypes[name])
	if name != "history" {
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	}
	out := bufio.NewWriterSize(newPatient(w), pieceBytes)
	switch name {
	case "profile":
		err = Encode(out, s)
	case "history":
		err = s.WriteDrawing(out, 0)
	case "snapshot.html":
		err = s.WriteHTML(out)
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
	stop, err := h.recordFor(w, r, a)
	if err != nil {
		return s, err
	}
	defer stop()
	if r.URL.Query().Get("seconds") == "" {
		select {
		case snapshots <- struct{}{}:
		default:
			return s, &httpError{status: http.StatusServiceUnavailable, text: "two snapshots are being made for others; try again"}
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

// recordFor waits for the seconds of the request, if it has any, while history is recorded. stop must be called after the
// snapshot; it ends the recording if nobody else wants it.
func (h *handler) recordFor(w http.ResponseWriter, r *http.Request, a memory.Allocator) (stop func(), err error) {
	text := r.URL.Query().Get("seconds")
	if text == "" {
		return func() {}, nil
	}
	wait, err := secondsOf(text)
	if err != nil {
		return nil, err
	}
	c, ok := a.(historian)
	if !ok {
		return nil, &httpError{status: http.StatusNotFound, text: fmt.Sprintf("%s has no caching allocator", a.Device())}
	}
	if !h.recording.TryLock() {
		return nil, &httpError{status: http.StatusConflict, text: "history is being recorded for another request with seconds; try again when it is over"}
	}
	end, err := c.ShareHistory(memory.HistoryOptions{})
	if err != nil {
		h.recording.Unlock()
		return nil, err
	}
	stop = func() { end(); h.recording.Unlock() }
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
