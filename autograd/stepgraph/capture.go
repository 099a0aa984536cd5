package stepgraph

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/rawbytes"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// room is for how many words replays may take from memory: eight for each group of an optimizer, and two for a generator.
const room = 8192

// capture makes the graph of some shapes. None of it runs. If it fails, everything is as it was.
func (s *Step) capture(sh *shaped) (err error) {
	fail := func(err error) error {
		return &Error{Call: "Run", Detail: "the step cannot be captured", Err: err}
	}
	if err := errors.Join(s.notDiverted(), s.noGradients()); err != nil {
		return fail(err)
	}
	s.dropResults()
	if err := s.alloc.EmptyCache(); err != nil { // what the eager runs needed, the graph needs anew
		return fail(err)
	}
	words, err := s.alloc.Alloc(8*room, s.exec.Stream())
	if err != nil {
		return fail(err)
	}
	done := false
	defer func() { // also if the function panics
		if !done {
			err = errors.Join(err, s.alloc.Free(words))
		}
	}()
	end, ok := s.gen.BeginUse(training.Key{})
	if !ok {
		return fail(&tensor.ValueError{Op: "Generator", Detail: "it is in another capture"})
	}
	defer end()
	var rec *replay.Recording
	defer func() {
		if !done && rec != nil {
			rec.Failed()
		}
	}()
	graph, err := s.alloc.CaptureGraph(s.capturer, func() error {
		rec = replay.Begin(s.capturer, words.Ptr(), room)
		defer rec.End()
		err := s.pass(sh.in, sh.put)
		if why := rec.Refused(); why != nil {
			return why
		}
		return err
	}, memory.CapturePool(s.pool), memory.CapturePlan())
	if err != nil {
		err = fail(err)
		if why := (*tensor.CaptureError)(nil); errors.As(err, &why) {
			sh.refused = err // the next one would be as this
		}
		return err
	}
	done = true
	sh.graph, sh.rec, sh.words, sh.places = graph, rec, words, s.placesNow()
	s.stats.Captures++
	return nil
}

// noGradients refuses gradients from outside of the step: what the step would add to them, replays would add to nothing.
func (s *Step) noGradients() error {
	for _, m := range s.modules {
		for _, p := range m.Parameters() {
			if p.Grad() != nil {
				return &tensor.CaptureError{Op: "Run", Detail: fmt.Sprintf("parameter %s has a gradient already; a step begins without: call ZeroGrad", excerpt.Quote(p.Name()))}
			}
		}
	}
	return nil
}

// notDiverted refuses parameters whose gradients go elsewhere, to be reduced over ranks.
func (s *Step) notDiverted() error {
	for _, m := range s.modules {
		for _, p := range m.Parameters() {
			if err := notDiverted(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// notDiverted is the same on all devices, also where a run would be an eager one, so that a program which works on one does on another.
func notDiverted(p *autograd.Parameter) error {
	if !autograd.Diverted(training.Key{}, p) {
		return nil
	}
	return &tensor.CaptureError{Op: "Run", Detail: fmt.Sprintf("parameter %s is trained by several ranks (parallel.Data), whose collectives the host starts and counts, which a replay does not do: "+
		"take such steps without a Step", excerpt.Quote(p.Name()))}
}

// placesNow is where the parameters and buffers of the modules are.
func (s *Step) placesNow() (list []place) {
	for _, m := range s.modules {
		for _, p := range m.Parameters() {
			list = append(list, place{p, tensor.Place(training.Key{}, p.Tensor())})
		}
		for _, b := range nn.NamedBuffers(m) {
			list = append(list, place{b.Parameter, tensor.Place(training.Key{}, b.Parameter.Tensor())})
		}
	}
	return list
}

// put copies values to the places of the results.
func (sh *shaped) put(values []*tensor.Tensor) error {
	if len(values) != len(sh.out) {
		return &tensor.CaptureError{Op: "Run", Detail: fmt.Sprintf("the step returns %d variables, and returned %d before it was captured", len(values), len(sh.out))}
	}
	for i, t := range values {
		if !alike(t, sh.out[i]) {
			return &tensor.CaptureError{Op: "Run", Detail: fmt.Sprintf("result %d is %s of shape %v, and was %s of shape %v before the step was captured",
				i, t.DType(), t.Shape(), sh.out[i].DType(), sh.out[i].Shape())}
		}
		if err := sh.out[i].CopyFrom(t); err != nil {
			return err
		}
	}
	return nil
}

// replay takes a step by the graph.
func (s *Step) replay(sh *shaped, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	s.dropResults()
	fail := func(err error) ([]*tensor.Tensor, error) { return nil, &Error{Call: "Run", Err: err} }
	for _, at := range sh.places {
		if err := notDiverted(at.p); err != nil { // Data was called after the capture
			return fail(err)
		}
	}
	if err := s.behindInputs(in); err != nil {
		return fail(err)
	}
	if err := s.feed(sh, in); err != nil {
		return fail(err)
	}
	if err := s.send(sh); err != nil {
		return fail(err)
	}
	if err := sh.graph.Replay(s.exec.Stream()); err != nil {
		return fail(err)
	}
	sh.rec.Replayed()
	s.stats.Replays++
	return s.lent(sh.out), nil
}

// send copies what the replay takes from memory there, unless it is there already.
func (s *Step) send(sh *shaped) error {
	words := sh.rec.Fill()
	same := len(words) == len(sh.sent)
	for i := 0; same && i < len(words); i++ {
		same = words[i] == sh.sent[i]
	}
	if same {
		return nil
	}
	sh.sent = append(sh.sent[:0], words...)
	err := s.exec.Stream().CopyToDevice(sh.words.Ptr(), rawbytes.Of(words))
	if err != nil {
		sh.sent = nil
	}
	return err
}
