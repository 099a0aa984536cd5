package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// process is a command of a step.
type process struct {
	name   string   // of its logs, and in the list of steps
	folder string   // where it runs
	argv   []string // the program is one of the bundle's, or found in PATH
	env    []string // besides the runner's
	limit  time.Duration
	passes func(r *runner) string // looks at what a process that ended with 0 has left, and says what is missing
}

// grace is the time between SIGQUIT and SIGKILL, for stacks to be written: at most 10 seconds of the limit, and a quarter.
func grace(limit time.Duration) time.Duration { return min(10*time.Second, limit/4) }

// start runs a command with its output in logs, and returns how it ended: an exit code or a word, and what there is to say of it.
func (r *runner) start(ctx context.Context, p process) (exit string, took time.Duration, remark string) {
	begin := time.Now()
	exit, remark = r.wait(ctx, p)
	return exit, time.Since(begin), remark
}

func (r *runner) wait(ctx context.Context, p process) (exit, remark string) {
	stdout, err := newCapped(filepath.Join(r.logs, p.name+".log"))
	if err != nil {
		return "not started", err.Error()
	}
	defer stdout.close()
	stderr, err := newCapped(filepath.Join(r.logs, p.name+".err"))
	if err != nil {
		return "not started", err.Error()
	}
	defer stderr.close()
	program := p.argv[0]
	if own := filepath.Join(r.bin, program); !strings.Contains(program, "/") {
		if _, err := os.Stat(own); err == nil {
			program = own
		}
	}
	c := exec.Command(program, p.argv[1:]...)
	c.Dir, c.Stdout, c.Stderr, c.Env = p.folder, stdout, stderr, append(r.environ(), p.env...)
	c.WaitDelay = time.Second // for children that hold the output
	runtime.LockOSThread()    // the process dies with the thread that has started it
	defer runtime.UnlockOSThread()
	group(c)
	if err := c.Start(); err != nil {
		return "not started", err.Error()
	}
	expendable(c)
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	return r.watch(ctx, c, p.limit, done)
}

// watch waits for a process, and ends it and its children when its time is over or ctx ends.
func (r *runner) watch(ctx context.Context, c *exec.Cmd, limit time.Duration, done <-chan error) (exit, remark string) {
	kept := grace(limit)
	soft := time.NewTimer(limit - kept)
	defer soft.Stop()
	exit = "124"
	select {
	case err := <-done:
		kill(c) // children that outlived it
		return exitOf(err), ""
	case <-soft.C:
		remark = fmt.Sprintf("not done after %.0f s of %.0f", (limit - kept).Seconds(), limit.Seconds())
	case <-ctx.Done():
		exit, kept = interrupted, min(kept, time.Second)
	}
	quit(c)
	hard := time.NewTimer(kept)
	defer hard.Stop()
	select {
	case <-done:
	case <-hard.C:
		kill(c)
		select {
		case <-done:
		case <-time.After(2 * time.Second): // in a call of the driver from which not even SIGKILL takes it
			remark += "; it could not be killed"
		}
	}
	kill(c)
	return exit, remark
}

func exitOf(err error) string {
	var e *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return "0"
	case errors.As(err, &e) && e.ExitCode() >= 0:
		return strconv.Itoa(e.ExitCode())
	default:
		return err.Error() // "signal: killed"
	}
}

// one is a step of one command. It reports whether that passed.
func (r *runner) one(ctx context.Context, p process) bool {
	exit, took, remark := r.start(ctx, p)
	if exit == "0" && p.passes != nil {
		if missing := p.passes(r); missing != "" {
			exit, remark = "incomplete", missing
		}
	}
	remark += "; " + counted(r.log(p.name))
	if exit != "0" {
		remark += "; " + r.reason(p.name)
	}
	r.note(p.name, exit, took, remark)
	return exit == "0"
}

// reason is what a step that failed says of it in one line: the first check that failed, the test that was running, or what it wrote last.
func (r *runner) reason(name string) string {
	log := r.log(name)
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "FAILED ") {
			return short(line)
		}
	}
	if test := unfinished(log); test != "" {
		return "in " + test
	}
	text, err := os.ReadFile(filepath.Join(r.logs, name+".err"))
	if err != nil || strings.Contains(string(text), "SIGQUIT: quit") { // stacks: the summary shows them
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return short(lines[len(lines)-1])
}

// short is a line that fits into a table.
func short(line string) string {
	line = strings.Join(strings.Fields(strings.ToValidUTF8(line, "?")), " ")
	if len(line) > 200 {
		line = line[:200] + " ..."
	}
	return line
}
