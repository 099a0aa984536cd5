package memprof_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lookedAt is how long a page is looked at: of the browser's own time, which passes as fast as the page lets it.
const lookedAt = 7500 * time.Millisecond

// chromium is a browser without a window, which all tests share. It is spoken to in the DevTools protocol, over pipes: JSON with a zero byte
// behind each message.
type chromium struct {
	cmd    *exec.Cmd
	folder string // its profile
	to     *os.File
	from   *bufio.Reader
	errs   bytes.Buffer
	last   int // number of a message
	events []message
}

// message is what is sent, and what comes: an answer, which has the number of what was sent, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// shared is the browser, begun by the first test that wants it and ended by TestMain. It is nil where there is none.
var shared = struct {
	sync.Mutex
	begun bool
	*chromium
}{}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.chromium != nil {
		shared.end()
	}
	os.Exit(code)
}

// browser is the browser of all tests. Caller holds the lock of shared.
func browser(t *testing.T) *chromium {
	t.Helper()
	if !shared.begun {
		shared.begun = true
		if path := browserPath(); path != "" {
			var err error
			shared.chromium, err = begin(path)
			require.NoError(t, err)
		}
	}
	if shared.chromium == nil {
		t.Skip("NO BROWSER: the page is not looked at. With chromium or google-chrome in the PATH it would be")
	}
	return shared.chromium
}

func browserPath() string {
	if runtime.GOOS == "windows" { // processes inherit no pipes there but the three
		return ""
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// begin begins a browser. It ends when its pipe is closed, and so with this process at the latest.
func begin(path string) (c *chromium, err error) {
	c = &chromium{}
	if c.folder, err = os.MkdirTemp("", "memprof-browser-"); err != nil {
		return nil, err
	}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.cmd = exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--user-data-dir="+c.folder, "--remote-debugging-pipe", "about:blank")
	c.cmd.Stderr, c.cmd.ExtraFiles = &c.errs, []*os.File{in, out}
	err = c.cmd.Start()
	c.to, c.from = to, bufio.NewReader(from)
	return c, errors.Join(err, in.Close(), out.Close())
}

func (c *chromium) end() {
	_ = c.to.Close()
	_ = c.cmd.Wait()
	_ = os.RemoveAll(c.folder)
}

// call sends a command, and reads its answer into result, unless that is nil. Events that come before it are kept.
func (c *chromium) call(session, method string, params map[string]any, result any) error {
	c.last++
	text, err := json.Marshal(message{ID: c.last, Session: session, Method: method, Params: params})
	if err != nil {
		return err
	}
	if _, err := c.to.Write(append(text, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		m, err := c.read()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", method, err)
		case m.ID != c.last:
			c.events = append(c.events, m)
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result != nil:
			return json.Unmarshal(m.Result, result)
		default:
			return nil
		}
	}
}

func (c *chromium) read() (m message, err error) {
	text, err := c.from.ReadBytes(0)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text[:len(text)-1], &m)
}

// await waits for an event of a page.
func (c *chromium) await(session, method string) error {
	for {
		for _, m := range c.events {
			if m.Session == session && m.Method == method {
				return nil
			}
		}
		m, err := c.read()
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", method, err)
		}
		c.events = append(c.events, m)
	}
}

// document opens an address in a window of its own, which shares nothing with others, and returns the document as it is after lookedAt.
func (c *chromium) document(address string) (string, error) {
	var made struct{ BrowserContextID, TargetID, SessionID string }
	var got struct{ Result struct{ Value string } }
	c.events = nil
	steps := []func() error{
		func() error { return c.call("", "Target.createBrowserContext", nil, &made) },
		func() error {
			return c.call("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": made.BrowserContextID, "newWindow": true,
				"width": 1200, "height": 1600}, &made)
		},
		func() error {
			return c.call("", "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
		},
		func() error { return c.call(made.SessionID, "Page.enable", nil, nil) },
		func() error {
			return c.call(made.SessionID, "Emulation.setVirtualTimePolicy", map[string]any{"policy": "pause"}, nil)
		},
		func() error {
			return c.call(made.SessionID, "Page.navigate", map[string]any{"url": address}, nil)
		},
		func() error {
			return c.call(made.SessionID, "Emulation.setVirtualTimePolicy", map[string]any{"policy": "pauseIfNetworkFetchesPending",
				"budget": lookedAt.Milliseconds(), "maxVirtualTimeTaskStarvationCount": 9999}, nil)
		},
		func() error { return c.await(made.SessionID, "Emulation.virtualTimeBudgetExpired") },
		func() error {
			return c.call(made.SessionID, "Runtime.evaluate", map[string]any{"expression": "document.documentElement.outerHTML", "returnByValue": true}, &got)
		},
		func() error {
			return c.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": made.BrowserContextID}, nil)
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return "", err
		}
	}
	return got.Result.Value, nil
}

// browse opens an address in the browser, and returns the document as it is after some seconds of the browser's time.
func browse(t *testing.T, address string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("the page is not looked at in short tests")
	}
	shared.Lock()
	defer shared.Unlock()
	c := browser(t)
	stuck := time.AfterFunc(2*time.Minute, func() { _ = c.cmd.Process.Kill() }) // its pipe ends
	defer stuck.Stop()
	document, err := c.document(address)
	require.NoError(t, err)
	return document
}
