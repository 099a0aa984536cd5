package amp

import (
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// record is called where an iteration begins. If that is being captured with package autograd/stepgraph, the scale must be there: a replay would
// make it anew. When the capture fails, nothing of the iteration has run, and it is forgotten.
func (s *GradScaler) record(e tensor.Exec) error {
	r := replay.On(e.Stream())
	if r == nil {
		return nil
	}
	if s.scale == nil {
		return r.Refuse(&tensor.CaptureError{Op: "Scale", Detail: "the GradScaler has no scale yet, and a replay would begin anew: scale a loss before the step is captured",
			Site: tensor.ProgramLine(training.Key{})})
	}
	scale := s.scale
	r.IfFailed(s.forget)
	r.Watch(func() bool { return s.scale == scale })
	return nil
}

// goHome brings the scale to the default stream, when the stream on which it was made ends.
func (s *GradScaler) goHome() {
	s.forget()
	if s.scale == nil {
		return
	}
	e := s.scale.Exec()
	home, err := tensor.On(e.Device(), tensor.WithAllocator(e.Allocator()))
	if err != nil { // the device is closed: so is all that was on it
		return
	}
	for _, t := range []**tensor.Tensor{&s.scale, &s.tracker} {
		old := *t
		*t = old.On(home)
		old.Release()
	}
}
