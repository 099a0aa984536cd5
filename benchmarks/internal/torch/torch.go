// Package torch runs Python scripts that measure PyTorch, so that its figures are from the same machine and the same run as ours.
package torch

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
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

// Limit is what a script may take. The first import of PyTorch on a machine is part of it.
const Limit = 75 * time.Second

// common is what scripts begin with: devices, timing, output.
//
//go:embed common.py
var common string

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

// Run runs a script, which may use what common.py has, and reads the JSON object that it writes into out. The error says why there
// are no figures: no Python, no PyTorch, no device for it. Several programs, separated as in PATH, are tried in turn.
func Run(python, script string, args []string, out any) error {
	if python == "" {
		return errors.New("no -python")
	}
	var all []error
	for _, program := range filepath.SplitList(python) {
		err := runOne(program, script, args, out)
		if err == nil || !errors.Is(err, errNone) {
			return err
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// errNone is an interpreter that is not there, or has no PyTorch.
var errNone = errors.New("no PyTorch")

func runOne(python, script string, args []string, out any) error {
	if _, err := exec.LookPath(python); err != nil {
		return fmt.Errorf("%w: %w", errNone, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	p := exec.CommandContext(ctx, python, append([]string{"-"}, args...)...)
	p.Stdin, p.Stdout, p.Stderr = strings.NewReader(common+script), &stdout, &stderr
	p.WaitDelay = time.Second // for what a killed script started
	if err := p.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s took longer than %v", python, Limit)
		}
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return fmt.Errorf("%s: %w: %s", python, err, lines[len(lines)-1])
	}
	var head struct {
		Skipped string
		None    bool
	}
	if err := json.Unmarshal(stdout.Bytes(), &head); err != nil {
		return fmt.Errorf("%s wrote no JSON: %w", python, err)
	}
	if head.None {
		return fmt.Errorf("%w: %s: %s", errNone, python, head.Skipped)
	}
	if head.Skipped != "" {
		return errors.New(head.Skipped)
	}
	return json.Unmarshal(stdout.Bytes(), out)
}
