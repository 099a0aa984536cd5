package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed torch_train.py
var script string

// trained is a process's lines, and why there are no more.
type trained struct {
	lines []line
	err   error
}

// starter runs a task in a process of its own: what goes wrong there, a lost device or a step that never ends, is the task's alone.
type starter func(ctx context.Context, t *task) trained

// ours starts this program anew.
func (o *options) ours(ctx context.Context, t *task) trained {
	self, err := os.Executable()
	if err != nil {
		return trained{err: err}
	}
	text, err := json.Marshal(t)
	if err != nil {
		return trained{err: err}
	}
	return o.process(ctx, nil, self, "-child", string(text))
}

// pytorch runs the script by the first Python that has PyTorch.
func (o *options) pytorch(ctx context.Context, t *task) trained {
	text, err := json.Marshal(t)
	if err != nil {
		return trained{err: err}
	}
	if o.python == "" {
		return trained{err: fmt.Errorf("%w: no -python", errNoPyTorch)}
	}
	all := []error{errNoPyTorch}
	for _, python := range filepath.SplitList(o.python) {
		if _, err := exec.LookPath(python); err != nil {
			all = append(all, err)
			continue
		}
		r := o.process(ctx, o.environment(), python, o.script, string(text))
		if len(r.lines) == 0 || !r.lines[0].None {
			return r
		}
		all = append(all, fmt.Errorf("%s: %w", python, r.err))
	}
	return trained{err: errors.Join(all...)}
}

// environment makes torch.compile begin with empty caches, and leave nothing.
func (o *options) environment() []string {
	folder := filepath.Dir(o.script)
	return []string{"TORCHINDUCTOR_CACHE_DIR=" + filepath.Join(folder, "inductor"), "TRITON_CACHE_DIR=" + filepath.Join(folder, "triton")}
}

// grace is how long after its end a process may hold its output open: what it started may still be there.
const grace = 2 * time.Second

// process runs a program until its end or its limit, and reads the lines that it has written by then.
func (o *options) process(ctx context.Context, env []string, name string, args ...string) trained {
	limited, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	p := exec.CommandContext(limited, name, args...)
	p.Env = append(os.Environ(), env...)
	p.Stdout, p.Stderr, p.WaitDelay = &stdout, &stderr, grace
	err := p.Run()
	r := trained{lines: parse(&stdout)}
	n := len(r.lines)
	switch {
	case ctx.Err() != nil:
		r.err = reason(ctx)
	case limited.Err() != nil:
		r.err = fmt.Errorf("stopped after %v", o.limit)
	case n > 0 && r.lines[n-1].Error != "":
		r.err = errors.New(r.lines[n-1].Error)
	case err != nil:
		r.err = fmt.Errorf("%w: %s", err, telling(stderr.String()))
	case n == 0:
		r.err = fmt.Errorf("%s wrote nothing", filepath.Base(name))
	}
	if r.err != nil {
		_, _ = io.WriteString(o.stderr, end(stderr.String())) // for whoever wants to know more than the remark says
	}
	return r
}

// parse reads lines of JSON. Others, the half of one, and what libraries print, are passed over.
func parse(r io.Reader) (list []line) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) == nil {
			list = append(list, l)
		}
	}
	return list
}

// telling is the line of standard error that says what was wrong: of a panic, whose stacks follow, the first, else the last.
func telling(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, l := range lines {
		if strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") {
			return l
		}
	}
	return lines[len(lines)-1]
}

// most is how much of a failed process's standard error is shown, in bytes.
const most = 4000

// end is the end of a text, from the beginning of a line.
func end(text string) string {
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}
