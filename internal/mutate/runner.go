package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// runner runs tests of mutants.
type runner struct {
	root     string // the module's
	tests    tests
	overlay  string                   // a folder for the mutant's file
	baseline map[string]time.Duration // how long the tests of a folder take without a mutant
	least    time.Duration            // that tests are given at least
}

func newRunner(root string, table tests) (*runner, error) {
	overlay, err := os.MkdirTemp("", "mutate")
	return &runner{root: root, tests: table, overlay: overlay, baseline: map[string]time.Duration{}, least: 30 * time.Second}, err
}

func (r *runner) close() {
	_ = os.RemoveAll(r.overlay) // a few files in the system's folder for them
}

// try runs tests until one notices the mutant. It returns by which it was killed, or what did not notice it.
func (r *runner) try(ctx context.Context, m *mutant) (outcome, string, error) {
	overlay, err := r.write(m)
	if err != nil {
		return "", "", err
	}
	folders := r.tests.of[m.source.pkg.folder]
	if len(folders) == 0 {
		folders = []string{m.source.pkg.folder}
	}
	for _, folder := range folders {
		if err := r.measure(ctx, folder); err != nil {
			return "", "", err
		}
		if failure := r.test(ctx, folder, overlay, 3*r.baseline[folder]+r.least); failure != nil {
			return killed, "by " + folder, ctx.Err()
		}
	}
	return survived, "", ctx.Err()
}

// write writes the mutant and the description of the overlay, whose name it returns.
func (r *runner) write(m *mutant) (string, error) {
	file := filepath.Join(r.overlay, "mutant.go")
	if err := os.WriteFile(file, m.content(), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {m.source.name: file}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(r.overlay, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// measure runs the tests of a folder as they are, once.
func (r *runner) measure(ctx context.Context, folder string) error {
	if _, ok := r.baseline[folder]; ok {
		return nil
	}
	start := time.Now()
	if err := r.test(ctx, folder, "", 30*time.Minute); err != nil {
		return fmt.Errorf("without a mutant: %w", err)
	}
	r.baseline[folder] = time.Since(start)
	return nil
}

// test runs the short tests of a folder and returns their failure, with its output.
func (r *runner) test(ctx context.Context, folder, overlay string, limit time.Duration) error {
	args := []string{"test", "-short", "-failfast", "-vet=off", "-count=1", "-timeout", limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if runtime.GOOS == "linux" { // a mutant may allocate without end: 8 GB is more than any test needs
		args = append(args, "-exec", `sh -c 'ulimit -d 8388608; exec "$0" "$@"'`)
	}
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Minute) // the compiler and the linker need some as well
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+folder)...)
	cmd.Dir = r.root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // which the go command hands on
	cmd.WaitDelay = 10 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("go %v: %w", cmd.Args[1:], err), errors.New(output.String()))
	}
	return nil
}
