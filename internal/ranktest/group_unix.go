//go:build unix

package ranktest

import (
	"os/exec"
	"syscall"
)

// together makes the command and what it starts one group of processes.
func together(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func kill(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
