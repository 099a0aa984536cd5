//go:build !linux

package main

import "os/exec"

// Groups of processes, orphans and locks are Linux's here: there is no bundle for other systems.

func group(*exec.Cmd) {}

// quit is kill where there are no signals.
func quit(c *exec.Cmd) { kill(c) }

func kill(c *exec.Cmd) { _ = c.Process.Kill() }

func expendable(*exec.Cmd) {}

func adoptOrphans() {}

func killOrphans() {}

func lock(string) (unlock func(), err error) { return func() {}, nil }
