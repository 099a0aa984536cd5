package optim

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/tensor"
)

// Steps that are captured with package autograd/stepgraph: they take their settings from memory, so that a replay has those of its time.

// recordedSettings are the settings of a group in replays.
type recordedSettings struct {
	o *Grouped
	g *group
}

// Fill writes the settings as they are now.
func (r *recordedSettings) Fill(words []uint64) {
	for i, v := range r.o.method.(launched).scalars(&r.g.settings) {
		words[i] = math.Float64bits(v)
	}
}

// Replayed notes that the values of the parameters have changed.
func (r *recordedSettings) Replayed() {
	for _, p := range r.g.params {
		tensor.Changed(training.Key{}, p.Tensor())
	}
}

// record gives a batch of a group the address of its settings, if its step is being recorded.
func (o *Grouped) record(g *group, b *batch) (err error) {
	r := recordingOf(b.params[0])
	if r == nil {
		return nil
	}
	if _, ok := o.method.(composed); ok {
		return refused(r, o.name+" has no kernel of its own, and counts its steps on the host")
	}
	b.guard.Settings, err = r.Words(g, op.StepScalars, func() replay.Value { return &recordedSettings{o, g} })
	version, groups := o.version, len(o.groups)
	r.Watch(func() bool { return o.version == version && len(o.groups) == groups })
	return err
}

// goHome brings the state to the default stream, when the stream on which it was made ends.
func (o *Grouped) goHome() {
	move := func(t *tensor.Tensor) *tensor.Tensor {
		if t == nil || t.Released() {
			return t
		}
		defer t.Release()
		return t.On(homeOf(t.Exec()))
	}
	for _, s := range o.states {
		if s == nil {
			continue
		}
		for i, t := range s.buffers {
			s.buffers[i] = move(t)
		}
		s.count = move(s.count)
	}
	for _, c := range o.counters {
		c.all, c.exec = move(c.all), homeOf(c.exec)
	}
	o.version++
}

// homeOf is e on the default stream.
func homeOf(e tensor.Exec) tensor.Exec {
	home, err := tensor.On(e.Device(), tensor.WithAllocator(e.Allocator()))
	if err != nil { // the device is closed: so is all that was on it
		return e
	}
	return home
}

func recordingOf(t *tensor.Tensor) *replay.Recording { return replay.On(t.Exec().Stream()) }

// refused says that a step cannot be captured.
func refused(r *replay.Recording, why string) error {
	return r.Refuse(&tensor.CaptureError{Op: "Step", Detail: why, Site: tensor.ProgramLine(training.Key{})})
}

// unrecorded refuses to make state for a parameter while its step is being recorded: each replay would make it anew.
func unrecorded(o *Grouped, p *autograd.Parameter) error {
	r := recordingOf(p.Tensor())
	if r == nil {
		return nil
	}
	return refused(r, fmt.Sprintf("%s has no state for parameter %s yet, and a replay would make it anew: take a step before it is captured", o.name, excerpt.Quote(p.Name())))
}
