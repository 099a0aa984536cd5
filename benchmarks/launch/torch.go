package main

import (
	_ "embed"
	"fmt"
	"strconv"

	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
)

//go:embed torch_launch.py
var script string

// torchOutput is what the script writes: the seconds of each run.
type torchOutput struct {
	Version string
	Results []struct {
		Operation          string
		Call, Stream, Wait []float64
	}
}

// addPyTorch puts PyTorch's numbers beside ours, or notes why there are none. That is no failure.
func (o *options) addPyTorch(r *report, spec device.Spec) {
	var out torchOutput
	on, err := torch.Device(spec)
	if err == nil {
		err = torch.Script{Python: o.Python, Text: script, Limit: o.Limit, Args: []string{"--device", on, "--runs", strconv.Itoa(o.Runs), "--row", strconv.Itoa(inARow),
			"--seconds", fmt.Sprint(o.Duration.Seconds()), "--stream-runs", strconv.Itoa(streamRuns)}}.Run(&out)
	}
	some := false
	if r.PyTorch, some = torch.Says(out.Version, err); !some {
		return
	}
	for _, t := range out.Results {
		for _, x := range r.Results {
			if x.Operation == t.Operation && min(len(t.Call), len(t.Stream), len(t.Wait)) > 0 {
				x.PyTorch = &peer{Call: spreadOf(t.Call), Stream: spreadOf(t.Stream), Wait: spreadOf(t.Wait)}
			}
		}
	}
}
