package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group makes a process the first of a group, so that signals reach its children too, and makes it die with this one.
func group(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// quit makes a Go program write the stacks of its goroutines and end. An error means that there is nobody left.
func quit(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGQUIT) }

func kill(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }

// expendable makes the system end the process rather than this one when memory runs out. Where that is not allowed nothing is lost.
func expendable(c *exec.Cmd) {
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(c.Process.Pid), "oom_score_adj"), []byte("500"), 0)
}

// adoptOrphans makes children of steps that have left their group and lost their parent children of this process.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killOrphans ends what a step has left behind. No command of this process is running.
func killOrphans() {
	for range 20 {
		list := children()
		if len(list) == 0 {
			return
		}
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// children are this process's.
func children() (pids []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is right
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// lock takes a lock that goes with the process, however that ends.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return func() {}, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return func() {}, fmt.Errorf("%s: %w", name, joined(err, f.Close()))
	}
	return func() { _ = f.Close() }, nil
}

func joined(first, second error) error {
	if second != nil {
		return fmt.Errorf("%w; %w", first, second)
	}
	return first
}
