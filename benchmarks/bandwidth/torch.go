package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

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
		Compiled  bool // by torch.compile
	}
	Errors []string // operations that PyTorch refused
}

// addPyTorch puts PyTorch's numbers beside ours, or notes why there are none. That is no failure.
func (o *options) addPyTorch(r *report, spec device.Spec) {
	out, err := o.runPyTorch(r, spec)
	some := false
	if r.PyTorch, some = torch.Says(out.Version, err); !some {
		return
	}
	if len(out.Errors) > 0 {
		r.PyTorch += "; without " + strings.Join(out.Errors, "; ")
	}
	for _, t := range out.Results {
		for _, x := range r.Results {
			if x.Operation != t.Operation || x.Type != t.Type || x.Size != t.Size || len(t.Seconds) == 0 {
				continue
			}
			s := timing.Of(t.Seconds)
			if t.Compiled {
				x.Compiled = &s
			} else {
				x.PyTorch, x.PyTorchGBs = &s, x.rate(s.Microseconds)
			}
		}
	}
}

// runPyTorch runs the script on what was measured.
func (o *options) runPyTorch(r *report, spec device.Spec) (*torchOutput, error) {
	out := &torchOutput{}
	on, err := torch.Device(spec)
	if err != nil {
		return out, err
	}
	cells, err := json.Marshal(r.Results)
	if err != nil {
		return out, err
	}
	compile := o.compile
	if compile < 0 {
		compile = 0
		if spec.Kind == device.CUDA {
			compile = time.Minute
		}
	}
	args := []string{"--device", on, "--runs", strconv.Itoa(o.Runs), "--seconds", fmt.Sprint(o.Duration.Seconds()), "--cells", string(cells),
		"--width", strconv.Itoa(width), "--vocabulary", strconv.Itoa(vocabulary),
		"--compile", fmt.Sprint(compile.Seconds()), "--compile-each", fmt.Sprint(o.compileEach.Seconds())}
	return out, torch.Script{Python: o.Python, Text: script, Args: args, Limit: o.Limit + compile}.Run(out)
}
