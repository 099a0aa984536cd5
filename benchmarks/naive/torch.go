package main

import (
	_ "embed"
	"fmt"
	"strconv"

	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
)

//go:embed torch_replay.py
var script string

// torchOutput is what the script writes.
type torchOutput struct {
	Version string
	Note    string // why the loop is not in C++
	Results []struct {
		File         string
		Pairs        int
		Runs         []float64
		Loop         string
		OverheadNs   float64 `json:"overhead_ns"`
		PeakReserved int64   `json:"peak_reserved_bytes"`
		OOMs         int
		LeftOut      int `json:"records_left_out"`
	}
}

// addPyTorch measures PyTorch's allocator on the recorded programs, or notes why not. That is no failure: most machines have
// no PyTorch with CUDA.
func (r *report) addPyTorch(o options, spec device.Spec, all []program) error {
	switch {
	case spec.Kind != device.CUDA:
		r.PyTorch = "left out: its caching allocator is for CUDA devices"
		return nil
	case o.python == "" || len(all) == 0:
		r.PyTorch = "left out: it needs -python, and -traces or -single"
		return nil
	}
	out, err := runPyTorch(o, spec, all)
	some := false
	if r.PyTorch, some = torch.Says(out.Version, err); !some {
		return nil
	}
	if err != nil { // as far as it came
		all = all[:min(len(out.Results), len(all))]
	}
	return r.merge(out, all)
}

// runPyTorch runs the script.
func runPyTorch(o options, spec device.Spec, all []program) (*torchOutput, error) {
	out := &torchOutput{}
	on, err := torch.Device(spec)
	if err != nil {
		return out, err
	}
	args := []string{"--runs", strconv.Itoa(o.runs), "--pairs", strconv.Itoa(o.pairs), "--seconds", fmt.Sprint(o.least.Seconds()), "--device", on}
	for _, p := range all {
		args = append(args, p.file)
	}
	return out, torch.Run(o.python, script, args, out)
}

// merge puts PyTorch's results behind those of the same program.
func (r *report) merge(out *torchOutput, all []program) error {
	if len(out.Results) != len(all) {
		return fmt.Errorf("PyTorch measured %d programs of %d", len(out.Results), len(all))
	}
	if out.Note != "" {
		r.PyTorch += "; " + out.Note
	}
	r.PyTorch += "; times include the measuring loop, which alone takes:"
	var merged []*Result
	for i, x := range r.Results {
		merged = append(merged, x)
		if i+1 < len(r.Results) && r.Results[i+1].Workload == x.Workload {
			continue
		}
		for j, p := range all {
			if p.name != x.Workload {
				continue
			}
			t := out.Results[j]
			if len(t.Runs) == 0 {
				return fmt.Errorf("PyTorch did not run %s", p.name)
			}
			merged = append(merged, &Result{Workload: p.name, Allocator: "pytorch", NsPerUnit: timing.Median(t.Runs), Runs: t.Runs, Units: t.Pairs,
				AllocsPer: 1, PeakReserved: t.PeakReserved, OOMs: t.OOMs, Loop: t.Loop, OverheadNs: t.OverheadNs, LeftOut: t.LeftOut})
			r.PyTorch += fmt.Sprintf(" %s %.0f ns/pair (%d uses on other streams left out);", p.name, t.OverheadNs, t.LeftOut)
		}
	}
	r.Results = merged
	return nil
}
