package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
)

// emulated runs the checks on the emulated driver that runs the committed PTX.
func emulated(t *testing.T, rig func(*cudatest.Rig)) (code int, results map[string]outcome, output string) {
	t.Helper()
	dev, r := emulatedtest.NewPTX(t)
	r.Expect("") // what the checks do wrong on purpose
	if rig != nil {
		rig(r)
	}
	return runChecks(t, options{device: "host", limit: time.Minute, checks: checks, open: func(string) (device.Device, error) { return dev, nil }, shut: memory.Drop})
}

// runChecks makes the checks and puts the results in order.
func runChecks(t *testing.T, o options) (code int, results map[string]outcome, output string) {
	t.Helper()
	var out, errs bytes.Buffer
	rep := &report{}
	code = o.check(rep, &out, &errs)
	results = map[string]outcome{}
	for _, x := range rep.Checks {
		results[x.Name] = x
	}
	return code, results, out.String() + errs.String()
}

func TestSmoke_PassesOnTheEmulatedDriver(t *testing.T) {
	code, results, output := emulated(t, nil)
	require.Zero(t, code, output)
	require.Len(t, results, len(checks)+1)
	require.Equal(t, skipped, results["driver"].Result, "the test gives the device")
	require.Equal(t, skipped, results["product, cuBLAS"].Result)
	require.Contains(t, results["product, cuBLAS"].Says, "none was given")
	for name, x := range results {
		if name != "driver" && name != "product, cuBLAS" {
			require.Equal(t, passed, x.Result, output)
		}
	}
	require.Contains(t, results["bad index"].Says, "4 at 3 is not in 0..3")
}

func TestSmoke_GoesOnAfterAFailure(t *testing.T) {
	code, results, output := emulated(t, func(r *cudatest.Rig) { r.Fail("cuStreamBeginCapture_v2", 1, 999) })
	require.Equal(t, 1, code, output)
	require.Equal(t, failed, results["captured graph"].Result)
	require.Contains(t, results["captured graph"].Says, "cuStreamBeginCapture_v2")
	require.Equal(t, passed, results["out of memory"].Result, output)
}

func TestSmoke_SaysIfTheDeviceCannotBeClosed(t *testing.T) {
	o := options{limit: time.Minute, checks: checks[1:2], shut: func(device.Device) error { return errors.New("stuck") },
		open: func(string) (device.Device, error) { return host.New(), nil }}
	code, results, _ := runChecks(t, o)
	require.Equal(t, 1, code)
	require.Equal(t, failed, results["close"].Result)
	require.Equal(t, "stuck", results["close"].Says)
}

func TestSmoke_EndsWithTheDevice(t *testing.T) {
	code, results, output := emulated(t, func(r *cudatest.Rig) { r.Fail("cuLaunchKernel", 1, 700) })
	require.Equal(t, 1, code, output)
	require.Equal(t, failed, results["add"].Result)
	require.NotContains(t, results, "bad index")
	require.Contains(t, output, "the checks end here")
}

func TestSmoke_DumpsStacksOfACheckThatHangs(t *testing.T) {
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	o := options{limit: 10 * time.Millisecond, checks: []check{
		{"first", func(*smoke) (string, error) { return "fine", nil }},
		{"stuck", func(*smoke) (string, error) { <-forever; return "", nil }},
		{"never", func(*smoke) (string, error) { return "", nil }},
	}}
	code, results, output := runChecks(t, o)
	require.Equal(t, 3, code)
	require.Equal(t, hung, results["stuck"].Result)
	require.NotContains(t, results, "never")
	require.Contains(t, output, "TestSmoke_DumpsStacksOfACheckThatHangs", "the stack of the goroutine that hangs")
}

func TestSmoke_RunsOnTheHostAndWritesItsResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "smoke.json")
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-device", "host:1GiB", "-json", file}, &out, &errs), out.String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(text, &r))
	require.Len(t, r.Checks, len(checks)+1)
	require.NotEmpty(t, r.Device)
	for _, x := range r.Checks {
		require.Contains(t, []string{passed, skipped}, x.Result, x)
	}
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-limit", "0s"}, {"what"}, {"-what"}, {"-only", "("}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), args)
		require.Contains(t, errs.String(), "smoke:")
	}
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-device", "host", "-only", "context"}, &out, &errs))
	require.Regexp(t, `(?s)^ok +open.*\nok +context[^\n]*\nok +close[^\n]*\n$`, out.String())
	require.Zero(t, run([]string{"-h"}, &out, &errs))
	require.Equal(t, 1, run([]string{"-device", "cuda:77"}, &out, &errs), "no such device")
	require.Contains(t, out.String(), "there is no device")
}
