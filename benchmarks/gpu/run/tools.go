package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// probeLimit is for a tool to show that it works here: it need not, where the system keeps the device's counters and debugger from it.
// Tests shorten it.
var probeLimit = 5 * time.Second

// probe runs the smoke test's first checks under a tool, whose arguments argv are. It returns why the tool cannot be used, or "".
func (r *runner) probe(ctx context.Context, name string, argv ...string) string {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return argv[0] + " is not installed"
	}
	if _, err := ask(ctx, argv[0], "--version"); err != nil { // reads it from the disk: the probe's time is its own
		return fmt.Sprintf("%s --version: %v", argv[0], err)
	}
	argv = append(argv, filepath.Join(r.bin, "smoke"), "-device", r.device, "-only", "open|context")
	exit, took, remark := r.start(ctx, process{name: name, folder: r.work, argv: argv, limit: probeLimit})
	if exit == "0" {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(r.log(name)), "\n")
	return fmt.Sprintf("%s does not work here: exit %s after %.1f s; %s; %s", argv[0], exit, took.Seconds(), remark, short(lines[len(lines)-1]))
}

// sanitizer is a step that looks for wrong accesses, races, reads of nothing or misplaced barriers in a few cases of each kernel: it is
// some hundred times slower. A tool that does not come to its end has still said what it found.
func sanitizer(tool string) func(*runner, context.Context, *step, time.Duration) {
	return func(r *runner, ctx context.Context, s *step, limit time.Duration) {
		end := time.Now().Add(limit)
		argv := []string{"compute-sanitizer", "--tool", tool, "--error-exitcode", "86", "--print-limit", "20"}
		if why := r.probe(ctx, s.name+"-probe", argv...); why != "" {
			r.skip(s, why)
			return
		}
		argv = append(argv, filepath.Join(r.bin, "kernels_cuda.test"), "-test.run", "^TestGPU_Conformance$", "-test.v", "-test.timeout", "0", "-every", "300")
		r.one(ctx, process{name: s.name, folder: filepath.Join(r.bundle, "tests", "kernels_cuda"), argv: append(argv, added("TEST_ARGS")...),
			limit: time.Until(end)})
	}
}

// What is asked of the profiler.
const metrics = "gpu__time_duration.sum,dram__bytes.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed," +
	"sm__throughput.avg.pct_of_peak_sustained_elapsed,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread," +
	"launch__occupancy_limit_registers"

// profiler is a step that runs a program under ncu, for so many launches.
func profiler(launches string, argv func(r *runner) []string) func(*runner, context.Context, *step, time.Duration) {
	return func(r *runner, ctx context.Context, s *step, limit time.Duration) {
		end := time.Now().Add(limit)
		ncu := []string{"ncu", "--clock-control", "none", "--csv", "--page", "raw", "--metrics", metrics}
		if why := r.probe(ctx, s.name+"-probe", ncu...); why != "" {
			r.skip(s, why)
			return
		}
		ncu = append(ncu, "--launch-count", launches, "--log-file", filepath.Join(r.logs, s.name+".csv"))
		program := argv(r)
		program[0] = filepath.Join(r.bin, program[0])
		r.one(ctx, process{name: s.name, folder: r.bundle, argv: append(ncu, program...), limit: time.Until(end)})
	}
}
