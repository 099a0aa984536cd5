package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed torch_host.py
var calls string

//go:embed torch_steps.py
var steps string

// script is PyTorch's side: the steps, and the calls with the loop that asks for both.
var script = steps + calls

// process is the other side at work: it reads lines with a case and a number of calls, and answers with what one of them took.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	cases []string // that it has; none for all
}

// otherSide is what the library is compared with: how a process of it is started, nil for nothing, and what is to be done in the end.
type otherSide struct {
	start func() (*process, error)
	end   func()
}

// goPeers are the libraries of the module peers.
var goPeers = []string{"gomlx", "gorgonia"}

func (o *options) side() (otherSide, error) {
	switch {
	case o.peer == "":
		return otherSide{end: func() {}}, nil
	case slices.Contains(goPeers, o.peer):
		return o.goSide()
	}
	return otherSide{func() (*process, error) { return start(o.python, o.threads) }, func() {}}, nil
}

// goSide builds the module, which is one of its own.
func (o *options) goSide() (otherSide, error) {
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return otherSide{}, err
	}
	remove := func() { _ = os.RemoveAll(dir) } // a few files of a folder for such
	program := filepath.Join(dir, "peers")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir, build.Stderr = o.peers, os.Stderr
	build.Env = append(build.Environ(), "GOWORK=off")
	if err := build.Run(); err != nil {
		remove()
		return otherSide{}, fmt.Errorf("building the libraries in %s: %w", o.peers, err)
	}
	return otherSide{func() (*process, error) {
		cmd := exec.Command(program, o.peer)
		cmd.Env = append(cmd.Environ(), fmt.Sprintf("GOMAXPROCS=%d", o.threads))
		return launch(cmd)
	}, remove}, nil
}

// start starts the first Python that has PyTorch.
func start(python string, threads int) (*process, error) {
	var all []error
	for _, program := range filepath.SplitList(python) {
		p, err := startOne(program, threads)
		if err == nil {
			return p, nil
		}
		all = append(all, fmt.Errorf("%s: no PyTorch: %w", program, err))
	}
	return nil, errors.Join(all...)
}

func startOne(program string, threads int) (*process, error) {
	cmd := exec.Command(program, "-c", script, fmt.Sprint(threads), fmt.Sprint(elements), fmt.Sprint(columns))
	// torch.set_num_threads leaves OpenBLAS's own threads as they are: products would have all processors, and by processor time what their threads wait.
	cmd.Env = append(cmd.Environ(), "OMP_WAIT_POLICY=PASSIVE", fmt.Sprintf("OMP_NUM_THREADS=%d", threads), fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads))
	return launch(cmd)
}

// launch starts a process, which answers when it is ready.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, json.NewDecoder(bufio.NewReader(out))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t, err := p.ask("", 0)
	if err != nil {
		p.end()
		return nil, fmt.Errorf("it did not answer: %w", err)
	}
	p.cases = t.Cases
	return p, nil
}

// has reports whether the other side has a case.
func (p *process) has(name string) bool { return len(p.cases) == 0 || slices.Contains(p.cases, name) }

// run is the i-th run of n calls, after some that do not count, as on this side.
func (p *process) run(name string, n, before int, cpus []int, i int) (t times, err error) {
	if err := holdPeer(p.cmd.Process, cpus, i); err != nil {
		return t, err
	}
	if before > 0 {
		if _, err := p.ask(name, before); err != nil {
			return t, err
		}
	}
	if t, err = p.ask(name, n); err != nil {
		return t, err
	}
	return t, freePeer(p.cmd.Process, cpus)
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

// peak is the most memory that the process has had resident, in bytes; 0 where the system has no such file. What getrusage says begins with
// what we had resident when we started it.
func (p *process) peak() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ = strings.Cut(line, "kB")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

func (p *process) end() {
	_ = resume(p.cmd.Process) // it may have ended
	p.in.Close()
	p.cmd.Wait()
}
