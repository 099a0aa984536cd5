package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
)

// collection is the collect command.
type collection struct {
	run, out, device, command string
	quick                     bool
}

// collect writes results.json and summary.md of what there is so far, and prints the targets.
func (c *collection) collect(stdout io.Writer) error {
	r, err := c.read()
	if err != nil {
		return err
	}
	if err := harness.WriteJSON(filepath.Join(c.out, "results.json"), r); err != nil {
		return err
	}
	var b strings.Builder
	r.summary(&b)
	if err := harness.Replace(filepath.Join(c.out, "summary.md"), []byte(b.String())); err != nil {
		return err
	}
	b.Reset()
	r.targets(&b)
	_, err = io.WriteString(stdout, b.String())
	return err
}

// read collects the files of a run.
func (c *collection) read() (*Results, error) {
	r := &Results{
		Date: time.Now().UTC().Format(time.DateOnly), Device: c.device, Command: c.command, Quick: c.quick,
		Figures: map[string]json.RawMessage{}, run: c.run,
	}
	for name, to := range map[string]*string{"COMMIT": &r.Commit, "GO": &r.Go, "facts.txt": &r.Facts} {
		text, err := os.ReadFile(filepath.Join(c.run, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		*to = folders.ReplaceAllString(strings.TrimSpace(strings.ToValidUTF8(string(text), "?")), "")
	}
	steps, err := os.ReadFile(filepath.Join(c.run, "steps.tsv"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(steps)) {
		s, err := parseStep(line)
		if err != nil {
			return nil, err
		}
		r.Steps = append(r.Steps, s)
	}
	files, err := filepath.Glob(filepath.Join(c.run, "logs", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if json.Valid(text) { // what a step that was stopped left may be half
			r.Figures[strings.TrimSuffix(filepath.Base(file), ".json")] = text
		}
	}
	if r.Profiles, err = profileTexts(filepath.Join(c.run, "logs")); err != nil {
		return nil, err
	}
	r.Name = r.deviceName()
	return r, r.addProfile(filepath.Join(c.run, "logs"))
}

// folders are what says where a machine keeps its files.
var folders = regexp.MustCompile(`/[^ ,:;\n]*/`)

func parseStep(line string) (Step, error) {
	fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
	if len(fields) != 4 {
		return Step{}, fmt.Errorf("steps.tsv: %q has not four fields", line)
	}
	seconds, err := strconv.Atoi(fields[2])
	if err != nil {
		return Step{}, fmt.Errorf("steps.tsv: %w", err)
	}
	return Step{Name: fields[0], Exit: fields[1], Seconds: seconds, Remark: strings.TrimSpace(fields[3])}, nil
}
