package memprof_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memprof"
)

// What changes the program's state is for a POST that no other site's page has made.
func TestHandler_OtherSitesChangeNothing(t *testing.T) {
	_, a := open(t)
	h := memprof.Handler()
	const timed, plain = "http://host/debug/memory/snapshot.json?seconds=1", "http://host/debug/memory/snapshot.json"
	for _, c := range []struct {
		method, target string
		headers        []string
		status         int
	}{
		{http.MethodGet, timed, nil, http.StatusMethodNotAllowed},
		{http.MethodHead, timed, nil, http.StatusMethodNotAllowed},
		{http.MethodPut, timed, nil, http.StatusMethodNotAllowed},
		{http.MethodDelete, plain, nil, http.StatusMethodNotAllowed},
		{http.MethodPost, timed, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{http.MethodPost, timed, []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{http.MethodPost, timed, []string{"Origin", "http://other"}, http.StatusForbidden},
		{http.MethodPost, timed, []string{"Origin", "null"}, http.StatusForbidden},
		{http.MethodPost, plain, []string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		{http.MethodPost, plain, []string{"Origin", "http://host"}, http.StatusOK},
		{http.MethodPost, plain, nil, http.StatusOK},
		{http.MethodGet, plain, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusOK},
	} {
		w := ask(t, h, c.method, c.target, c.headers...)
		require.Equal(t, c.status, w.Code, "%s %s %v", c.method, c.target, c.headers)
		require.Equal(t, c.status == http.StatusMethodNotAllowed, w.Header().Get("Allow") != "")
		require.False(t, a.HistoryEnabled())
	}
}

// Who begins to record while a request has it recorded keeps the recording, and the trace so far.
func TestHandler_LeavesTheProgramItsRecording(t *testing.T) {
	dev, a := open(t)
	h, other := memprof.Handler(), memprof.Handler()
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		wg.Go(func() { post(t, h, "/debug/memory/snapshot.json?seconds=10") })
		synctest.Wait()
		b := weights(t, a, 3*device.MiB, dev.DefaultStream())
		require.NoError(t, a.RecordHistory(memory.HistoryOptions{MaxEntries: 500}))
		wg.Wait()
		require.True(t, a.HistoryEnabled(), "the program's own")
		require.Len(t, a.Snapshot().DeviceTraces[dev.ID().Index], 3, "the segment, the block and the request's snapshot")
		a.StopHistory()
		require.False(t, a.HistoryEnabled())

		// Two requests of different handlers, of which one ends first.
		wg.Go(func() { post(t, h, "/debug/memory/snapshot.json?seconds=10") })
		time.Sleep(5 * time.Second)
		wg.Go(func() { post(t, other, "/debug/memory/snapshot.json?seconds=10") })
		time.Sleep(7 * time.Second)
		require.True(t, a.HistoryEnabled(), "the second has 3 seconds left")
		a.StopHistory()
		require.True(t, a.HistoryEnabled(), "what the program did not begin it does not end")
		wg.Wait()
		require.False(t, a.HistoryEnabled())
		require.NoError(t, a.Free(b))
	})
}

func TestShareHistory_StopsOnce(t *testing.T) {
	_, a := open(t)
	first, err := a.ShareHistory(memory.HistoryOptions{})
	require.NoError(t, err)
	second, err := a.ShareHistory(memory.HistoryOptions{})
	require.NoError(t, err)
	first()
	first()
	require.True(t, a.HistoryEnabled())
	second()
	require.False(t, a.HistoryEnabled())
	_, err = a.ShareHistory(memory.HistoryOptions{MaxEntries: -1})
	var ce *memory.ConfigError
	require.ErrorAs(t, err, &ce)
}

// stuckWriter is a client that does not read: a write waits for the deadline.
type stuckWriter struct {
	*httptest.ResponseRecorder
	mu       sync.Mutex
	deadline time.Time
	writes   int
}

func (w *stuckWriter) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = at
	return nil
}

func (w *stuckWriter) Write([]byte) (int, error) {
	w.mu.Lock()
	at := w.deadline
	w.writes++
	w.mu.Unlock()
	<-time.After(time.Until(at)) // in the time of the test
	return 0, fmt.Errorf("i/o timeout")
}

// Clients that do not read keep two snapshots, and those for half a minute; others are told to come again.
func TestHandler_ClientsThatDoNotReadHoldTwoSnapshots(t *testing.T) {
	dev, a := open(t)
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
	for range 2000 {
		require.NoError(t, a.Free(weights(t, a, 1000, dev.DefaultStream())))
	}
	h := memprof.Handler()
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		var writers []*stuckWriter
		for range 50 {
			w := &stuckWriter{ResponseRecorder: httptest.NewRecorder()}
			writers = append(writers, w)
			wg.Go(func() {
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/memory/snapshot.json", nil))
			})
		}
		synctest.Wait()
		refused := 0
		for _, w := range writers {
			if w.Code == http.StatusServiceUnavailable {
				require.Equal(t, "1", w.Header().Get("Retry-After"))
				refused++
			}
		}
		require.Equal(t, 48, refused)
		require.Equal(t, http.StatusOK, get(t, h, "/debug/memory/summary").Code, "what is small is served")
		time.Sleep(31 * time.Second)
		require.Equal(t, http.StatusOK, get(t, h, "/debug/memory/snapshot.json").Code, "they had their time")
		wg.Wait()
	})
	a.StopHistory()
}

// Over a connection the deadline is set, and a client that reads gets all.
func TestHandler_OverAConnection(t *testing.T) {
	dev, a := open(t)
	require.NoError(t, a.RecordHistory(memory.HistoryOptions{}))
	for range 3000 {
		require.NoError(t, a.Free(weights(t, a, 1000, dev.DefaultStream())))
	}
	server := httptest.NewServer(memprof.Handler())
	defer server.Close()
	for range 3 { // on one connection
		resp, err := server.Client().Get(server.URL + "/debug/memory/snapshot.json")
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Greater(t, len(body), 1<<20)
		require.True(t, json.Valid(body))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
}
