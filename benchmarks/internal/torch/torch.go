// Package torch runs Python scripts that measure PyTorch, so that its numbers are from the same machine and the same run as ours.
package torch

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/device"
)

// Python are the interpreters that are tried if no flag names one: the first that has PyTorch is used.
const Python = "python3" + string(os.PathListSeparator) + "/usr/bin/python3"

// Limit is what a script may take if nothing else is said. The first import of PyTorch on a machine is part of it.
const Limit = 75 * time.Second

// common is what scripts begin with: devices, timing, output.
//
//go:embed common.py
var common string

// Peer is what scripts may begin with besides that compare single calls with package peer: the same inputs, what is measured of a call.
//
//go:embed peer.py
var Peer string

// Device is what PyTorch calls a device of ours; PyTorch has none for the simulated one.
func Device(s device.Spec) (string, error) {
	switch s.Kind {
	case device.CUDA:
		return fmt.Sprintf("cuda:%d", s.Index), nil
	case device.Host:
		return "cpu", nil
	default:
		return "", fmt.Errorf("PyTorch has no device like %s", s.Kind)
	}
}

// Script is a script, which may use what common.py has, and how to run it.
type Script struct {
	Python string // programs, separated as in PATH: the first that has PyTorch is used
	Text   string
	Args   []string
	Limit  time.Duration // 0 is Limit
}

// Run runs a script within Limit: see [Script.Run].
func Run(python, script string, args []string, out any) error {
	return Script{Python: python, Text: script, Args: args}.Run(out)
}

// Run runs the script and reads the JSON objects that it writes into out, as if they were one: lists of the same name are put together,
// of other fields the last one counts. The error says why there are no numbers: no Python, no PyTorch, no device for it. A [*Cut] says
// why they are not all there.
func (s Script) Run(out any) error {
	if s.Python == "" {
		return errors.New("no -python")
	}
	var all []error
	for _, program := range filepath.SplitList(s.Python) {
		err := s.runOne(program, out)
		if err == nil || !errors.Is(err, errNone) {
			return err
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// errNone is an interpreter that is not there, or has no PyTorch.
var errNone = errors.New("no PyTorch")

func (s Script) runOne(python string, out any) error {
	if _, err := exec.LookPath(python); err != nil {
		return fmt.Errorf("%w: %w", errNone, err)
	}
	text, failed := s.output(python)
	o, err := parse(text)
	switch {
	case failed != nil && o.results() == 0:
		return failed
	case failed != nil:
		return errors.Join(o.read(out), &Cut{Err: failed})
	case len(o) == 0:
		return fmt.Errorf("%s wrote no JSON: %w", python, err)
	}
	why, none := o.skipped()
	switch {
	case none:
		return fmt.Errorf("%w: %s: %s", errNone, python, why)
	case why != "":
		return errors.New(why)
	}
	if read := o.read(out); read != nil || err == nil {
		return read
	}
	return &Cut{Err: err}
}

// output runs the script. It returns what it wrote also if it was stopped or failed.
func (s Script) output(python string) ([]byte, error) {
	limit := s.Limit
	if limit <= 0 {
		limit = Limit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	p := exec.CommandContext(ctx, python, append([]string{"-"}, s.Args...)...)
	p.Stdin, p.Stdout, p.Stderr = strings.NewReader(common+s.Text), &stdout, &stderr
	p.WaitDelay = time.Second // for what a killed script started
	err := p.Run()
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return stdout.Bytes(), fmt.Errorf("%s took longer than %v", python, limit)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	return stdout.Bytes(), fmt.Errorf("%s: %w: %s", python, err, lines[len(lines)-1])
}
