package torchtest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/cistern-ml/cistern/internal/elementwise"
)

//go:embed testdata/torch.py
var script string

// table is what the script knows of tableOps.
func table() string {
	type row struct {
		Expression string `json:"expression"`
		Rough      bool   `json:"rough"`
	}
	rows := map[string]row{}
	for _, o := range tableOps {
		rows[o.Name] = row{o.Test.Torch, o.Types == elementwise.OnlyFloats}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		panic("torchtest: " + err.Error()) // invariant: strings and booleans have a JSON form
	}
	return string(text)
}

// Torch is a process that runs programs in PyTorch.
type Torch struct {
	Version string
	Crashes int // how many programs ended the process; another one was started
	python  string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// ErrNoTorch says that there is no Python with PyTorch.
var ErrNoTorch = errors.New("no Python with PyTorch: set CISTERN_PYTHON, or install python3-torch")

// StartTorch starts the Python of CISTERN_PYTHON, else python3 of the path, else that of the system, whichever has PyTorch.
func StartTorch() (*Torch, error) {
	for _, python := range []string{os.Getenv("CISTERN_PYTHON"), "python3", "/usr/bin/python3"} {
		if python == "" {
			continue
		}
		if t, err := startTorch(python); err == nil {
			return t, nil
		}
	}
	return nil, ErrNoTorch
}

func startTorch(python string) (*Torch, error) {
	cmd := exec.Command(python, "-c", script, table())
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=PASSIVE", "MKL_NUM_THREADS=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &Torch{python: python, cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	var hello struct{ Version string }
	if err := t.read(&hello); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.Version = hello.Version
	return t, nil
}

// Close ends the process.
func (t *Torch) Close() error {
	err := t.in.Close()
	if e := t.cmd.Wait(); e != nil && err == nil {
		err = e
	}
	return err
}

func (t *Torch) read(v any) error {
	line, err := t.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// errCrashed says that a program ended the process: there is no answer to compare with.
var errCrashed = errors.New("torchtest: PyTorch crashed")

// restart starts another process in place of one that ended, and returns errCrashed if it runs.
func (t *Torch) restart(cause error) error {
	_ = t.Close() // says how it ended, which is known
	next, err := startTorch(t.python)
	if err != nil {
		return errors.Join(cause, err)
	}
	next.Crashes = t.Crashes + 1
	*t = *next
	return errCrashed
}

// Run runs a program. With noise it runs so many times more, to see how far rounding errors move each element.
func (t *Torch) Run(p *Program, noise int) (*Answer, error) {
	line, err := json.Marshal(map[string]any{"program": p, "noise": noise, "seed": p.Seed % (1 << 40)})
	if err != nil {
		return nil, err
	}
	if _, err := t.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	a := new(Answer)
	if err := t.read(a); err != nil {
		return nil, t.restart(err)
	}
	if a.Failed == -2 {
		return nil, fmt.Errorf("torchtest: %s", strings.TrimSpace(a.Error))
	}
	return a, nil
}
