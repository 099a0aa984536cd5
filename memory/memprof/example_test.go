package memprof_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memprof"
)

func ExampleHandler() {
	dev := sim.New(4 * device.GiB)
	a, err := memory.For(dev)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = memory.Drop(dev) }()
	// With this, profiles know the lines of code.
	if c, ok := a.(*memory.Caching); ok {
		if err := c.RecordHistory(memory.HistoryOptions{}); err != nil {
			fmt.Println(err)
		}
	}

	mux := http.NewServeMux()
	mux.Handle("/debug/memory/", memprof.Handler())
	server := httptest.NewServer(mux) // in a program: http.ListenAndServe("localhost:6060", mux)
	defer server.Close()

	b, err := a.Alloc(3*device.MiB, dev.DefaultStream())
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := http.Get(server.URL + "/debug/memory/summary?abbreviated=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "memory  ") {
			fmt.Print(line)
		}
	}
	_ = a.Free(b)
	// Output:
	// | Allocated memory      |   3072 KiB |   3072 KiB |   3072 KiB |      0 B   |
	// | Active memory         |   3072 KiB |   3072 KiB |   3072 KiB |      0 B   |
	// | Requested memory      |   3072 KiB |   3072 KiB |   3072 KiB |      0 B   |
	// | GPU reserved memory   |  20480 KiB |  20480 KiB |  20480 KiB |      0 B   |
}
