package main

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// row is a case as it was measured. Figures are nanoseconds per element, or per call.
type row struct {
	Case      string  `json:"case"`
	Threads   int     `json:"threads"`
	Cistern   float64 `json:"cistern_ns"`
	Peer      float64 `json:"peer_ns,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`
	RatioWall float64 `json:"ratio_wall,omitempty"`
}

// scene is what a case computes with: the device, and tensors that it lets go of.
type scene struct {
	tensor.Exec
	kept []*tensor.Tensor
	ends []func()
}

// uniform are numbers of a range, kept until the case ends.
func (s *scene) uniform(from, to float64, shape ...int) (*tensor.Tensor, error) {
	x, err := tensor.Uniform(s.Exec, tensor.NewGenerator(1), from, to, tensor.Float32, shape...)
	s.kept = append(s.kept, x)
	return x, err
}

func (s *scene) end() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	for _, x := range s.kept {
		x.Release()
	}
}

func discard(x *tensor.Tensor, err error) error {
	x.Release()
	return err
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// times are those of a call: of the processor, and on the clock, in seconds.
type times struct{ Processor, Wall float64 }

// better keeps the best of both.
func (t *times) better(u times) {
	if t.Wall == 0 {
		*t = u
	}
	t.Processor, t.Wall = min(t.Processor, u.Processor), min(t.Wall, u.Wall)
}

// runTime is how long a run takes, about.
const runTime = 4 * time.Millisecond

func (o *options) measure() (rows []row, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.threads))
	var torch *process
	if o.peer != "" {
		if torch, err = start(o.python, o.threads); err != nil {
			return nil, err
		}
		defer torch.end()
	}
	err = harness.On("host", func(e tensor.Exec, _ device.Spec) error {
		for _, w := range cases() {
			if !o.only.MatchString(w.name) {
				continue
			}
			r, err := o.measureCase(w, &scene{Exec: e}, torch)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			rows = append(rows, r)
		}
		return nil
	})
	return rows, err
}

// measureCase measures one case: in turn a run here and one of PyTorch's.
func (o *options) measureCase(w workload, s *scene, torch *process) (row, error) {
	r := row{Case: w.name, Threads: o.threads}
	defer s.end()
	call, err := w.start(s)
	if err != nil {
		return r, err
	}
	one, err := timed(call, 1)
	if err != nil {
		return r, err
	}
	n := max(1, int(runTime.Seconds()/one.Wall))
	var ours, theirs times
	for range o.runs {
		t, err := timed(call, n)
		if err != nil {
			return r, err
		}
		ours.better(t)
		if torch != nil {
			if t, err = torch.ask(w.name, n); err != nil {
				return r, err
			}
			theirs.better(t)
		}
	}
	per := 1e9 / float64(max(1, w.elements))
	r.Cistern, r.Peer = ours.Processor*per, theirs.Processor*per
	if torch != nil {
		r.Ratio, r.RatioWall = theirs.Processor/ours.Processor, theirs.Wall/ours.Wall
	}
	return r, nil
}

// timed is what one of n calls takes.
func timed(call func() error, n int) (t times, err error) {
	processor, begin := processorTime(), time.Now()
	for range n {
		if err := call(); err != nil {
			return t, err
		}
	}
	t = times{(processorTime() - processor).Seconds() / float64(n), time.Since(begin).Seconds() / float64(n)}
	return t, nil
}

//go:embed torch_host.py
var calls string

//go:embed torch_steps.py
var steps string

// script is PyTorch's side: the steps, and the calls with the loop that asks for both.
var script = steps + calls

// process is PyTorch at work: it reads lines with a case and a number of calls, and answers with what one of them took.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// start starts the first Python that has PyTorch.
func start(python string, threads int) (*process, error) {
	var all []error
	for _, program := range filepath.SplitList(python) {
		p, err := startOne(program, threads)
		if err == nil {
			return p, nil
		}
		all = append(all, fmt.Errorf("%s: %w", program, err))
	}
	return nil, errors.Join(all...)
}

func startOne(program string, threads int) (*process, error) {
	p := &process{cmd: exec.Command(program, "-c", script, fmt.Sprint(threads), fmt.Sprint(elements), fmt.Sprint(columns))}
	// torch.set_num_threads leaves OpenBLAS's own threads as they are: products would have all processors, and by processor time what their threads wait.
	p.cmd.Env = append(p.cmd.Environ(), "OMP_WAIT_POLICY=PASSIVE", fmt.Sprintf("OMP_NUM_THREADS=%d", threads), fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads))
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, json.NewDecoder(bufio.NewReader(out))
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := p.ask("", 0); err != nil {
		p.end()
		return nil, errors.New("no PyTorch")
	}
	return p, nil
}

func (p *process) ask(name string, n int) (t times, err error) {
	if err := resume(p.cmd.Process); err != nil {
		return t, err
	}
	if _, err := fmt.Fprintf(p.in, "%s\t%d\n", name, n); err != nil {
		return t, err
	}
	if err := p.out.Decode(&t); err != nil {
		return t, err
	}
	return t, stop(p.cmd.Process)
}

func (p *process) end() {
	_ = resume(p.cmd.Process) // it may have ended
	p.in.Close()
	p.cmd.Wait()
}

// write prints the table.
func write(w io.Writer, rows []row) error {
	return harness.Table(w, func(w io.Writer) {
		fmt.Fprint(w, "case\tthreads\tcistern_ns\tpeer_ns\tratio\tratio_wall\t\n")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.2f\t%.2f\t\n", r.Case, r.Threads, r.Cistern, r.Peer, r.Ratio, r.RatioWall)
		}
	})
}
