package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed torch_ddp.py
var script string

// build builds examples/parallel.
func build(program string) error {
	cmd := exec.Command("go", "build", "-o", program, "github.com/cistern-ml/cistern/examples/parallel")
	cmd.Env, cmd.Stderr = append(cmd.Environ(), "CGO_ENABLED=0"), os.Stderr
	return cmd.Run()
}

// finished runs a process to its end and returns what it wrote, and the most memory that it or one that it waited for had resident.
func finished(cmd *exec.Cmd) (out []byte, memory int64, err error) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if out, err = cmd.Output(); err != nil {
		return nil, 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out, resident(cmd.ProcessState), nil
}

// ours trains by MPI.
func (o *options) ours(program, file string) (row, error) {
	args := []string{"-n", strconv.Itoa(o.Ranks)}
	if version, err := exec.Command(o.mpirun, "--version").Output(); err != nil {
		return row{}, err
	} else if bytes.Contains(version, []byte("Open MPI")) {
		args = append(args, "--oversubscribe", "--allow-run-as-root")
	}
	args = append(args, program, "-json", file)
	for name, value := range map[string]int{"steps": o.Steps, "layers": o.Layers, "width": o.Width, "heads": o.Heads, "seq": o.Seq, "vocab": o.Vocab, "batch": o.Batch} {
		args = append(args, fmt.Sprintf("-%s=%d", name, value))
	}
	cmd := exec.Command(o.mpirun, args...)
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1")
	_, memory, err := finished(cmd)
	if err != nil {
		return row{}, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return row{}, err
	}
	var figures struct {
		Losses  []float64 `json:"losses"`
		Seconds []float64 `json:"seconds_per_step"`
	}
	if err := json.Unmarshal(text, &figures); err != nil {
		return row{}, err
	}
	if len(figures.Losses) == 0 || len(figures.Seconds) == 0 {
		return row{}, errors.New("it told no figures")
	}
	return row{"cistern, MPI", o.Ranks, slices.Max(figures.Seconds), memory, figures.Losses[len(figures.Losses)-1]}, nil
}

// peer trains in PyTorch: a process for each rank.
func (o *options) peer() (row, error) {
	task, err := json.Marshal(o)
	if err != nil {
		return row{}, err
	}
	var all []error
	for _, python := range filepath.SplitList(o.python) {
		r, err := o.ranks(python, string(task))
		if err == nil {
			return r, nil
		}
		all = append(all, fmt.Errorf("%s: %w", python, err))
	}
	return row{}, errors.Join(all...)
}

func (o *options) ranks(python, task string) (row, error) {
	if err := exec.Command(python, "-c", "import torch.distributed").Run(); err != nil {
		return row{}, fmt.Errorf("it has no PyTorch: %w", err)
	}
	type answer struct {
		Seconds float64
		Losses  []float64
	}
	answers, memory, errs := make([]answer, o.Ranks), make([]int64, o.Ranks), make([]error, o.Ranks)
	var group sync.WaitGroup
	for rank := range o.Ranks {
		group.Go(func() {
			cmd := exec.Command(python, "-c", script, strconv.Itoa(rank), task)
			cmd.Env = append(cmd.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "OMP_WAIT_POLICY=PASSIVE")
			var out []byte
			if out, memory[rank], errs[rank] = finished(cmd); errs[rank] == nil {
				errs[rank] = json.Unmarshal(out, &answers[rank])
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return row{}, err
	}
	r := row{Side: "PyTorch, gloo", Ranks: o.Ranks, Memory: slices.Max(memory)}
	for _, a := range answers {
		r.Seconds = max(r.Seconds, a.Seconds)
		r.Loss += a.Losses[len(a.Losses)-1] / float64(o.Ranks)
	}
	return r, nil
}
