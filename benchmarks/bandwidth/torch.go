package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
)

//go:embed torch_bandwidth.py
var script string

// torchOutput is what the script writes: the seconds of each run, by operation, type and size.
type torchOutput struct {
	Version string
	Results []struct {
		Operation string
		Type      string
		Size      uint64
		Seconds   []float64
	}
	Errors []string // operations that PyTorch refused
}

// addPyTorch puts PyTorch's figures beside ours, or notes why there are none. That is no failure.
func (o *options) addPyTorch(r *report, spec device.Spec) {
	out, err := o.runPyTorch(r, spec)
	if err != nil {
		r.PyTorch = "left out: " + err.Error()
		return
	}
	r.PyTorch = out.Version
	if len(out.Errors) > 0 {
		r.PyTorch += "; without " + strings.Join(out.Errors, "; ")
	}
	for _, t := range out.Results {
		for _, x := range r.Results {
			if x.Operation == t.Operation && x.Type == t.Type && x.Size == t.Size && len(t.Seconds) > 0 {
				s := timing.Of(t.Seconds)
				x.PyTorch, x.PyTorchGBs = &s, x.rate(s.Microseconds)
			}
		}
	}
}

// runPyTorch runs the script on what was measured.
func (o *options) runPyTorch(r *report, spec device.Spec) (*torchOutput, error) {
	on, err := torch.Device(spec)
	if err != nil {
		return nil, err
	}
	cells, err := json.Marshal(r.Results)
	if err != nil {
		return nil, err
	}
	out := &torchOutput{}
	args := []string{"--device", on, "--runs", strconv.Itoa(o.runs), "--seconds", fmt.Sprint(o.duration.Seconds()), "--cells", string(cells),
		"--width", strconv.Itoa(width), "--vocabulary", strconv.Itoa(vocabulary)}
	return out, torch.Run(o.python, script, args, out)
}
