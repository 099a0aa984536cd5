package stepgraph

import (
	"context"
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// shaped is what the step has for inputs of some shapes and types: their places, those of the results, and the graph.
type shaped struct {
	in, out []*tensor.Tensor
	ran     int // eagerly

	graph   *memory.Graph
	rec     *replay.Recording
	words   memory.Block // what replays take from memory
	sent    []uint64     // what is there
	places  []place
	refused error // why there is no graph
}

// place is where a parameter was when the graph was captured.
type place struct {
	p  *autograd.Parameter
	at any
}

// shapedFor finds what there is for inputs, and makes it if there is none. It is nil for inputs that the step runs eagerly for ever.
func (s *Step) shapedFor(in []*tensor.Tensor) (*shaped, error) {
	if s.capturer == nil {
		return nil, nil
	}
	for _, sh := range s.shapes {
		if sh.fits(in) {
			return sh, nil
		}
	}
	if len(s.shapes) >= s.most {
		return nil, nil
	}
	sh := new(shaped)
	for _, t := range in {
		p, err := tensor.Empty(s.exec, t.DType(), t.Shape()...)
		if err != nil {
			sh.release()
			return nil, err
		}
		sh.in = append(sh.in, p)
	}
	s.shapes = append(s.shapes, sh)
	return sh, nil
}

func (sh *shaped) fits(in []*tensor.Tensor) bool { return slices.EqualFunc(sh.in, in, alike) }

// alike reports whether two tensors have one shape and type.
func alike(a, b *tensor.Tensor) bool { return a.DType() == b.DType() && a.Shape().Equal(b.Shape()) }

// feed copies inputs into their places.
func (s *Step) feed(sh *shaped, in []*tensor.Tensor) error {
	for i, t := range in {
		if err := tensor.CopyOver(training.Key{}, sh.in[i], t); err != nil {
			return err
		}
	}
	return nil
}

// release gives the places back.
func (sh *shaped) release() {
	for _, t := range slices.Concat(sh.in, sh.out) {
		t.Release()
	}
	sh.in, sh.out = nil, nil
}

// current reports whether what the graph was captured of is where it was.
func (sh *shaped) current() bool {
	for _, p := range sh.places {
		if tensor.Place(training.Key{}, p.p.Tensor()) != p.at {
			return false
		}
	}
	return sh.rec.Current()
}

// drop ends the graph of some shapes, when it is done: the next runs are eager ones, before it is captured anew.
func (s *Step) drop(sh *shaped) error {
	if sh.graph == nil {
		return nil
	}
	err := s.exec.Stream().Synchronize(context.Background())
	err = errors.Join(err, sh.graph.Close(), s.alloc.Free(sh.words))
	sh.graph, sh.rec, sh.sent, sh.places, sh.words, sh.ran = nil, nil, nil, nil, memory.Block{}, 0
	return err
}
