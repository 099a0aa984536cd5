package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
)

//go:embed torch_attention.py
var script string

// torchOutput is what the script writes.
type torchOutput struct {
	Version string
	Results []struct {
		problem
		peer.Line
	}
	Errors []string // what PyTorch refused
}

// addPyTorch puts PyTorch's numbers beside ours, or notes why there are none. That is no failure.
func (o *options) addPyTorch(r *report, spec device.Spec) {
	out, err := o.runPyTorch(r, spec)
	some := false
	if r.PyTorch, some = torch.Says(out.Version, err); !some {
		return
	}
	r.Refused = out.Errors
	place := map[problem]*result{}
	for _, x := range r.Results {
		place[x.problem] = x
	}
	for _, t := range out.Results {
		if x := place[t.problem]; x != nil {
			x.Add(&t.Line, func(way string) bool { return way != "default" })
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
	var all []problem
	for _, x := range r.Results {
		all = append(all, x.problem)
	}
	list, err := json.Marshal(all)
	if err != nil {
		return out, err
	}
	args := []string{"--device", on, "--runs", strconv.Itoa(o.runs), "--seconds", fmt.Sprint(o.duration.Seconds()), "--problems", string(list)}
	return out, torch.Script{Python: o.python, Text: torch.Peer + script, Args: args, Limit: o.limit}.Run(out)
}
