package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// peakSteps are how many steps a process takes whose memory is measured: caches have all that they need after a few.
const peakSteps = 6

// measurePeaks sets the memory of a case: of a process here that does nothing else, and of one of the other side.
func (o *options) measurePeaks(r *row, other otherSide) (err error) {
	if r.CisternPeak, err = peakOf(r.Case, func() (*process, error) { return launch(ourselves(o.threads)) }); err != nil || other.start == nil {
		return err
	}
	r.PeerPeak, err = peakOf(r.Case, other.start)
	return err
}

func peakOf(name string, start func() (*process, error)) (int64, error) {
	p, err := start()
	if err != nil {
		return 0, err
	}
	defer p.end()
	if _, err := p.ask(name, peakSteps); err != nil {
		return 0, err
	}
	return p.peak(), nil
}

// ourselves is a process of this program that serves; tests have another.
var ourselves = func(threads int) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.Command(program, "-serve", "-threads", fmt.Sprint(threads))
}

// serve is this program as a process: it reads cases and answers as others do.
func serve(in io.Reader, out io.Writer) error {
	answers := json.NewEncoder(out)
	return harness.On("host", func(e tensor.Exec, _ device.Spec) error {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			name, count, _ := strings.Cut(lines.Text(), "\t")
			n, err := strconv.Atoi(count)
			if err != nil {
				return err
			}
			t, err := serveOne(&scene{Exec: e}, name, n)
			if err != nil {
				return err
			}
			if err := answers.Encode(t); err != nil {
				return err
			}
		}
		return nil
	})
}

func serveOne(s *scene, name string, n int) (times, error) {
	if name == "" {
		return times{}, nil
	}
	for _, w := range cases() {
		if w.name == name {
			defer s.end()
			call, err := w.start(s)
			if err != nil {
				return times{}, err
			}
			return timed(call, max(1, n))
		}
	}
	return times{}, fmt.Errorf("there is no case %q", name)
}
