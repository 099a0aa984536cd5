package main

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/internal/trace"
)

// outcome is what became of one expected file.
type outcome struct {
	trace, config string
	difference    string // the first one; empty if all is equal
	err           error  // it could not be replayed
}

// replayAll compares every expected file of a folder with a replay, on all processors, and writes a line for each, in the
// order of their names, and one with the counts. It fails unless all are equal.
func replayAll(dir string, stdout io.Writer) error {
	files, err := expectedFiles(dir)
	if err != nil {
		return err
	}
	var traces traces
	outcomes := make([]chan outcome, len(files))
	for i := range outcomes {
		outcomes[i] = make(chan outcome, 1) // so that no worker waits for the lines to be written
	}
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				outcomes[i] <- traces.replay(dir, files[i])
			}
		})
	}
	go func() {
		for i := range files {
			next <- i
		}
		close(next)
	}()
	failed, err := writeOutcomes(stdout, outcomes)
	workers.Wait()
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d replays are not equal to what was recorded", failed, len(files))
	}
	return err
}

func expectedFiles(dir string) ([]string, error) {
	var files []string
	for _, pattern := range []string{"*.json", "*.json.gz"} {
		found, err := filepath.Glob(filepath.Join(dir, "expected", pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no files in %s", filepath.Join(dir, "expected", "*.json[.gz]"))
	}
	slices.Sort(files)
	return files, nil
}

// writeOutcomes writes the lines as they come and returns how many are not "ok".
func writeOutcomes(w io.Writer, outcomes []chan outcome) (failed int, err error) {
	print := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format, args...)
		}
	}
	differ, broken := 0, 0
	for _, c := range outcomes {
		o := <-c
		verdict := "ok"
		switch {
		case o.err != nil:
			broken++
			verdict = "error: " + strings.ReplaceAll(o.err.Error(), "\n", "; ")
		case o.difference != "":
			differ++
			verdict = o.difference
		}
		print("%-16s %-17s %s\n", o.trace, o.config, verdict)
	}
	print("%d replays: %d ok, %d different, %d failed\n", len(outcomes), len(outcomes)-differ-broken, differ, broken)
	return differ + broken, err
}

// traces reads each trace once for all workers.
type traces struct{ byName sync.Map } // file name to func() (*trace.Trace, error)

func (s *traces) open(name string) (*trace.Trace, error) {
	read, _ := s.byName.LoadOrStore(name, sync.OnceValues(func() (*trace.Trace, error) { return trace.Open(name) }))
	return read.(func() (*trace.Trace, error))()
}

// replay does one expected file.
func (s *traces) replay(dir, file string) outcome {
	e, err := replay.OpenExpected(file)
	if err != nil {
		return outcome{trace: filepath.Base(file), err: err}
	}
	o := outcome{trace: strings.TrimSuffix(strings.TrimSuffix(e.Trace, ".gz"), ".trace"), config: e.Config.Name}
	o.difference, o.err = s.compare(dir, e)
	return o
}

// compare returns the first difference, or "".
func (s *traces) compare(dir string, e *replay.Expected) (string, error) {
	t, err := s.open(filepath.Join(dir, e.Trace))
	if err != nil {
		return "", err
	}
	options, err := e.Options()
	if err != nil {
		return "", err
	}
	r, err := replay.Run(t, options)
	if err != nil {
		return "", err
	}
	differences, err := e.Differences(r)
	if err != nil || len(differences) == 0 {
		return "", err
	}
	return differences[0].String(), nil
}
