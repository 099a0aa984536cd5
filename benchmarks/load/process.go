package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// starter runs a process that loads files. What the process has said before it ended badly comes with the error.
type starter func(o *options, files []string) (*started, error)

// startProcess starts this program anew.
func startProcess(o *options, files []string) (*started, error) {
	self, err := os.Executable()
	if err != nil {
		return &started{}, err
	}
	return o.start(self, files)
}

// start runs a program as child. It gets no more time than -timeout.
func (o *options) start(program string, files []string) (*started, error) {
	ctx, stop := context.WithTimeout(context.Background(), o.timeout)
	defer stop()
	cmd := exec.CommandContext(ctx, program, append([]string{"-child", "-device", o.device}, files...)...)
	cmd.WaitDelay = time.Second // for its output, if it has left that to another process
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "CUDA_CACHE_PATH="+o.cache, "CUDA_CACHE_MAXSIZE=4294967296", "CUDA_CACHE_DISABLE=0")
	err := cmd.Run()
	s := read(&stdout)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return s, fmt.Errorf("the process was ended after %v (-timeout)", o.timeout)
	case err != nil:
		return s, fmt.Errorf("the process ended with %w: %s", err, beginning(stderr.String()))
	}
	return s, nil
}

// beginning is what matters of a crash: the goroutines come after it.
func beginning(text string) string {
	const most = 1000
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
