package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Runs begin on each processor in turn, and a thread has all of them again afterwards.
func TestBegin_VisitsEveryProcessor(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpus := places()
	if cpus == nil {
		t.Skip("one processor: there is nothing to choose")
	}
	for i := range 2 * len(cpus) {
		require.NoError(t, begin(cpus, i))
		require.Equal(t, cpus, places())
	}
	require.NoError(t, begin(nil, 3))
}

func TestHoldPeer_KeepsAProcessOnOneProcessor(t *testing.T) {
	cpus := places()
	if cpus == nil {
		t.Skip("one processor: there is nothing to choose")
	}
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	defer func() { require.NoError(t, cmd.Process.Kill()); require.Error(t, cmd.Wait()) }()
	var of unix.CPUSet
	require.NoError(t, holdPeer(cmd.Process, cpus, 1))
	require.NoError(t, unix.SchedGetaffinity(cmd.Process.Pid, &of))
	require.Equal(t, *set(cpus[1]), of, fmt.Sprint(cpus))
	require.NoError(t, freePeer(cmd.Process, cpus))
	require.NoError(t, unix.SchedGetaffinity(cmd.Process.Pid, &of))
	require.Equal(t, *set(cpus...), of)
}
