package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// runner runs steps and keeps what they say.
type runner struct {
	options
	environment
	plan            plan
	bin, work, logs string // the bundle's programs; the folder of this run; the output of its steps
	stderr          io.Writer
	deadline        time.Time
	unlock          func()

	ended     []ending
	done      int   // steps of the plan that were run, or not for a reason
	failures  int   // of steps
	unwritten error // why the results of the last step were not written
}

// ending is how a step or a part of it ended: its name, exit code or a word, duration and remark.
type ending struct {
	name, exit string
	took       time.Duration
	remark     string
}

// What steps end with besides exit codes.
const (
	skipped     = "skipped"      // there was a reason not to run
	noTime      = "no time left" // not run
	interrupted = "interrupted"  // by a signal
	lacking     = "not run"      // the device cannot be opened
	pending     = "pending"      // until it ends
)

// least is the shortest time that a step is started with.
const least = 2 * time.Second

func newRunner(ctx context.Context, o options, p plan, stderr io.Writer) (r *runner, err error) {
	if o.bundle, err = filepath.Abs(o.bundle); err != nil {
		return nil, err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return nil, err
	}
	r = &runner{options: o, plan: p, bin: filepath.Join(o.bundle, "bin"), stderr: stderr, deadline: o.since.Add(o.total), unlock: func() {}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.unlock, err = lock(filepath.Join(os.TempDir(), "cistern-gpu-"+strings.ReplaceAll(o.device, ":", "-")+".lock")); err != nil {
		return r, fmt.Errorf("another run uses %s, and would spoil both figures: %w", o.device, err)
	}
	adoptOrphans()
	if err := setAside(o.out, stderr); err != nil {
		return r, err
	}
	if err := os.MkdirAll(o.out, 0o777); err != nil {
		return r, err
	}
	if r.work, err = os.MkdirTemp("", "cistern-gpu-"); err != nil {
		return r, err
	}
	r.logs = filepath.Join(r.work, "logs")
	if err := os.Mkdir(r.logs, 0o777); err != nil {
		return r, err
	}
	for _, name := range []string{"COMMIT", "GO"} {
		text, err := os.ReadFile(filepath.Join(r.bundle, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(r.work, name), text, 0o666)
		}
		if err != nil {
			return r, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, min(20*time.Second, o.total/4))
	defer cancel()
	r.environment = surroundings(limited)
	r.publish() // so that nobody takes older results for these
	if !isFile(filepath.Join(r.out, logsName)) {
		return r, fmt.Errorf("results cannot be written: %w", r.unwritten)
	}
	return r, nil
}

// setAside moves results of another run out of the way.
func setAside(out string, stderr io.Writer) error {
	if _, err := os.Stat(filepath.Join(out, "results.json")); err != nil {
		return nil
	}
	for i := 1; ; i++ {
		old := fmt.Sprintf("%s.%d", out, i)
		if _, err := os.Lstat(old); err == nil {
			continue
		}
		fmt.Fprintf(stderr, "older results are now in %s\n", old)
		return os.Rename(out, old)
	}
}

// close removes what was not copied to the results.
func (r *runner) close() {
	if r.work != "" {
		if err := os.RemoveAll(r.work); err != nil {
			fmt.Fprintln(r.stderr, "run:", err)
		}
	}
	r.unlock()
}

// all runs the plan's steps until ctx ends.
func (r *runner) all(ctx context.Context) {
	for i, s := range r.plan {
		limit := r.plan.limit(i, time.Until(r.deadline))
		r.done = i + 1
		switch {
		case ctx.Err() != nil:
			r.note(s.name, interrupted, 0, "not run")
		case r.unopened() != "":
			r.note(s.name, lacking, 0, r.unopened())
		case limit < least:
			r.note(s.name, noTime, 0, "not run")
		default:
			s.run(r, ctx, s, limit)
			killOrphans()
		}
	}
}

// unopened says why nothing can run on the device: the smoke test could not open it.
func (r *runner) unopened() string {
	for line := range strings.Lines(r.log("smoke")) {
		if rest, ok := strings.CutPrefix(line, "FAILED"); ok && slices.Contains([]string{"driver", "open"}, strings.Fields(rest + " ?")[0]) {
			return "the device cannot be opened: " + strings.Join(strings.Fields(rest), " ")
		}
	}
	return ""
}

// notRun are the steps of the plan that were not run, or interrupted.
func (r *runner) notRun() (names []string) {
	for _, s := range r.plan {
		if slices.ContainsFunc(r.ended, func(e ending) bool {
			return e.name == s.name && (e.exit == noTime || e.exit == interrupted)
		}) {
			names = append(names, s.name)
		}
	}
	return names
}

// note records an ending. The results are written anew.
func (r *runner) note(name, exit string, took time.Duration, remark string) {
	remark = strings.Trim(strings.Join(strings.Fields(remark), " "), "; ")
	r.ended = append(r.ended, ending{name, exit, took, remark})
	if !slices.Contains([]string{"0", skipped, noTime, interrupted, lacking}, exit) {
		r.failures++
	}
	fmt.Fprintf(r.stderr, "== %s: %s after %.0f s  %s\n", name, exit, took.Seconds(), remark)
	r.publish()
}

func (r *runner) skip(s *step, why string) { r.note(s.name, skipped, 0, why) }

// publish writes the results, if there is time for that: the last time, there is.
func (r *runner) publish() {
	if r.unwritten = r.collect(); r.unwritten != nil {
		fmt.Fprintln(r.stderr, "run:", r.unwritten)
	}
}

const logsName = "logs.tar.gz"

// collectLimit is for writing results, which is none of the steps' time but must not hang either.
const collectLimit = 20 * time.Second

// collect writes the results of what has run so far, and what has not. The logs are there even if the report cannot be written.
func (r *runner) collect() error {
	err := os.WriteFile(filepath.Join(r.work, "steps.tsv"), r.table(), 0o666)
	ctx, cancel := context.WithTimeout(context.Background(), collectLimit)
	defer cancel()
	args := []string{"collect", "-run", r.work, "-out", r.out, "-device", r.device, "-command", r.command()}
	if r.quick {
		args = append(args, "-quick")
	}
	p := exec.CommandContext(ctx, filepath.Join(r.bin, "report"), args...)
	var stdout, stderr bytes.Buffer
	p.Stdout, p.Stderr, p.WaitDelay = &stdout, &stderr, time.Second
	if failed := p.Run(); failed != nil {
		err = errors.Join(err, fmt.Errorf("report: %w: %s", failed, bytes.TrimSpace(stderr.Bytes())))
	} else {
		err = errors.Join(err, os.WriteFile(filepath.Join(r.work, "targets"), stdout.Bytes(), 0o666))
	}
	if plot, readErr := os.ReadFile(filepath.Join(r.logs, "naive.svg")); readErr == nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(r.out, "naive.svg"), plot, 0o666))
	}
	return errors.Join(err, archive(filepath.Join(r.out, logsName), r.work, "logs", "steps.tsv", "facts.txt"))
}

// table is what report reads of the steps, those that have not run yet too.
func (r *runner) table() []byte {
	var b bytes.Buffer
	for _, e := range r.ended {
		fmt.Fprintf(&b, "%s\t%s\t%.0f\t%s\n", e.name, e.exit, e.took.Seconds(), e.remark)
	}
	for _, s := range r.plan[r.done:] {
		fmt.Fprintf(&b, "%s\t%s\t0\t\n", s.name, pending)
	}
	return b.Bytes()
}

// command is how the run was started, for who reads the numbers: flags and settings, no folders of this machine.
func (r *runner) command() string {
	var words []string
	for _, set := range os.Environ() {
		if name, value, _ := strings.Cut(set, "="); strings.HasSuffix(name, "_ARGS") && value != "" {
			words = append(words, fmt.Sprintf("%s='%s'", name, value))
		}
	}
	slices.Sort(words)
	words = append(words, "run.sh")
	if r.quick {
		words = append(words, "-q")
	}
	return strings.Join(append(words, r.steps...), " ")
}

// targets is what report printed of them last.
func (r *runner) targets() string {
	text, err := os.ReadFile(filepath.Join(r.work, "targets"))
	if err != nil {
		return ""
	}
	return string(text)
}
