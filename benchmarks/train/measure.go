package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
)

// measurement is a run of the program.
type measurement struct {
	*options
	*report
	spec   device.Spec
	folder string // of the files that both sides begin with
	left   bool   // there is no PyTorch
}

// errNoPyTorch is that PyTorch is not there, or not for the device.
var errNoPyTorch = errors.New("no PyTorch")

// measure runs everything, while ctx is not over. What a process could not do is a remark beside its numbers.
func (o *options) measure(ctx context.Context) (r *report, err error) {
	spec, err := device.ParseSpec(o.device)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "cistern-train-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	o.script = filepath.Join(folder, "torch_train.py") // a file, because torch.compile starts processes that may read it
	if err := os.WriteFile(o.script, []byte(script), 0o600); err != nil {
		return nil, err
	}
	m := &measurement{options: o, spec: spec, folder: folder, report: &report{Machine: machine.Here(), Spec: o.device}}
	if _, err := torch.Device(spec); err != nil {
		m.none(err)
	}
	for _, mode := range o.modes {
		for _, p := range o.programs {
			if !p.has(mode) || mode == graph && spec.Kind != device.CUDA {
				continue
			}
			if err := m.both(ctx, p, mode); err != nil {
				return nil, err
			}
		}
	}
	return m.report, nil
}

// both measures a program in a mode, here and in PyTorch, and writes what is known by then.
func (m *measurement) both(ctx context.Context, p *program, mode string) error {
	for _, precision := range m.precisions(p) {
		t := p.task
		t.AMP, t.Mode, t.Device, t.Profile, t.Plan = precision, mode, m.device, m.profile, m.plan
		if mode == graph {
			t.Warm = max(t.Warm, leastWarm)
		}
		x := m.result(&t)
		err := ctx.Err()
		if err == nil {
			err = m.start(&t)
		}
		sides := []side{{"cistern", t, m.own}}
		if mode != eager && mode != graph {
			sides = nil
		}
		if on, err := torch.Device(m.spec); err == nil && !m.left {
			t.Device = on
			sides = append(sides, side{"pytorch", t, m.other})
		}
		for _, s := range sides {
			if err := m.one(ctx, x, &s, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// side is one of the two of a training.
type side struct {
	name string
	task task
	run  starter
}

// one adds a side's training, or why there is none.
func (m *measurement) one(ctx context.Context, x *result, s *side, why error) error {
	of := trained{err: why}
	switch {
	case ctx.Err() != nil:
		of.err = fmt.Errorf("not run: %w", reason(ctx))
	case why == nil:
		of = s.run(ctx, &s.task)
	}
	if errors.Is(of.err, errNoPyTorch) {
		m.none(of.err)
	} else {
		m.told(x.add(&s.task, name(s.name, s.task.Mode), of))
	}
	return m.write()
}

// none notes that PyTorch is left out from now on.
func (m *measurement) none(why error) {
	m.PyTorch, m.left = "left out: "+strings.ReplaceAll(why.Error(), "\n", "; "), true
}

// reason is why ctx is over.
func reason(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("the time of -budget is over")
	}
	return errors.New("interrupted")
}

// precisions are those of -amp, or the program's own.
func (m *measurement) precisions(p *program) []string {
	if len(m.amp) > 0 {
		return m.amp
	}
	return []string{p.AMP}
}

// start makes sure that a task has its file, unless nothing is computed. All precisions and modes of a program have the same.
func (m *measurement) start(t *task) error {
	if m.spec.Kind == device.Sim {
		return nil
	}
	t.Start = filepath.Join(m.folder, t.Model+".safetensors")
	if _, err := os.Stat(t.Start); err == nil {
		return nil
	}
	if err := t.writeStart(t.Start); err != nil {
		_ = os.Remove(t.Start) // half a file would do harm; the error that is told is the first one
		return err
	}
	return nil
}

// told notes what a process said of the machine.
func (m *measurement) told(lines []line) {
	for _, l := range lines {
		if l.Device != "" {
			m.Device = l.Device
		}
		if l.Library != "" {
			m.Library = l.Library
		}
		if l.Version != "" {
			m.PyTorch = l.Version
		}
	}
}

// name is that of a subject.
func name(side, mode string) string {
	if side == "cistern" && mode == eager {
		return side
	}
	return side + " " + mode
}

// result is that of a task's model and precision.
func (r *report) result(t *task) *result {
	i := slices.IndexFunc(r.Results, func(x *result) bool { return x.Model == t.Model && x.AMP == t.AMP })
	if i < 0 {
		i = len(r.Results)
		r.Results = append(r.Results, &result{Model: t.Model, AMP: t.AMP, Batch: t.Batch, Unit: t.unit(), Items: t.items(), Warm: t.Warm, Runs: t.Runs,
			Steps: t.Steps})
	}
	return r.Results[i]
}

// add makes a subject of what a process said, and compares it. It returns the lines.
func (x *result) add(t *task, name string, of trained) []line {
	s := &subject{Name: name}
	x.Subjects = append(x.Subjects, s)
	var runs []float64
	for _, l := range of.lines {
		s.Parameters = max(s.Parameters, l.Parameters)
		s.First += l.First
		s.Allocated, s.Reserved = max(s.Allocated, l.Allocated), max(s.Reserved, l.Reserved)
		if l.Loss != nil {
			s.Losses = append(s.Losses, *l.Loss)
		}
		if l.Seconds > 0 {
			runs = append(runs, l.Seconds/float64(t.Steps))
		}
		if l.Note != "" {
			s.remark(l.Note)
		}
	}
	if len(runs) > 0 {
		s.Runs = len(runs)
		s.Spread = timing.Of(runs)
		s.Rate = float64(x.Items) / s.Microseconds * 1e6
		s.TFLOPS = t.flops(s.Parameters) / s.Microseconds / 1e6
	}
	if of.err != nil {
		s.remark(of.err.Error())
	}
	x.compare()
	return of.lines
}
