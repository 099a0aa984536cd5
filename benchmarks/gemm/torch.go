package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

//go:embed torch_gemm.py
var script string

// task is what the script computes: a problem that a subject of ours computed.
type task struct {
	Problem string `json:"problem"`
	Type    string `json:"type"`
	M       int    `json:"m"`
	N       int    `json:"n"`
	K       int    `json:"k"`
}

// torchOutput is what the script writes: the seconds of each run, with and without rounding float32.
type torchOutput struct {
	Version string
	Results []struct {
		task
		TF32    bool
		Seconds []float64
	}
}

// addPyTorch adds PyTorch's numbers, or notes why there are none. That is no failure.
func (o *options) addPyTorch(r *report, spec device.Spec) {
	out, err := o.runPyTorch(spec)
	some := false
	if r.PyTorch, some = torch.Says(out.Version, err); !some {
		return
	}
	for _, t := range out.Results {
		name := "pytorch"
		if t.TF32 {
			name += tf32
		}
		d, err := harness.FloatType(t.Type)
		if err != nil || len(t.Seconds) == 0 {
			r.PyTorch += "; without " + t.Problem + " of " + t.Type
			continue
		}
		x := newResult(&problem{name: t.Problem, m: t.M, n: t.N, k: t.K}, d, name, t.Seconds)
		r.Results = append(r.Results, x)
	}
}

// runPyTorch runs the script on all problems.
func (o *options) runPyTorch(spec device.Spec) (*torchOutput, error) {
	out := &torchOutput{}
	on, err := torch.Device(spec)
	if err != nil {
		return out, err
	}
	var tasks []task
	for _, d := range o.types {
		for _, s := range o.shapes {
			tasks = append(tasks, tasksOf(d, s)...)
		}
	}
	list, err := json.Marshal(tasks)
	if err != nil {
		return out, err
	}
	args := []string{"--device", on, "--runs", strconv.Itoa(o.Runs), "--seconds", fmt.Sprint(o.Duration.Seconds()), "--tasks", string(list)}
	return out, torch.Script{Python: o.Python, Text: script, Args: args, Limit: o.Limit}.Run(out)
}

func tasksOf(d tensor.DType, s shape) (tasks []task) {
	for _, p := range problems(s) {
		tasks = append(tasks, task{Problem: p.name, Type: d.String(), M: p.m, N: p.n, K: p.k})
	}
	return tasks
}
