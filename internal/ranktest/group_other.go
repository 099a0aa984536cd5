//go:build !unix

package ranktest

import "os/exec"

func together(*exec.Cmd) {}

func kill(c *exec.Cmd) { _ = c.Process.Kill() }
