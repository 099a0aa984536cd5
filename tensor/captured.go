package tensor

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/kernels/op"
)

// What operations take from device memory while they are recorded (package internal/replay), so that replays differ as eager runs do.

// generatorUse is a generator in a capture: where it was when the capture began, and how many blocks one run takes. Captured kernels have
// the states of the time of the capture as parameters, and the way from there to the generator's present state in memory.
type generatorUse struct {
	gen    *Generator
	start  GeneratorState
	blocks uint64
}

// Fill writes what Uniform and its like take from memory: the key, and what is added to the offset.
func (u *generatorUse) Fill(words []uint64) {
	s := u.gen.State()
	words[0], words[1] = s.Seed, s.Offset-u.start.Offset
}

// Replayed moves the generator past the blocks of a run.
func (u *generatorUse) Replayed() { u.gen.Reserve(u.blocks) }

// BeginUse says that what draws from the generator is being captured, until end is called: then the generator is as it was before. A
// generator is in one capture at a time; false says that it is in another. It is for packages of this module, which alone can write the key.
func (g *Generator) BeginUse(training.Key) (end func(), ok bool) {
	if g == nil {
		return nil, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.use != nil {
		return nil, false
	}
	u := &generatorUse{gen: g, start: g.state}
	g.use, g.state.use = u, u
	return u.end, true
}

func (u *generatorUse) end() {
	g := u.gen
	g.mu.Lock()
	defer g.mu.Unlock()
	u.blocks = g.state.Offset - u.start.Offset
	g.use, g.state = nil, u.start
}

// recorded is the recording that the call becomes part of, nil if it runs.
func (l *launch) recorded() *replay.Recording { return replay.On(l.exec.stream) }

// random adds key and offset of random numbers. It gives l back if it fails.
func (l *launch) random(name string, s GeneratorState) error {
	l.call.I[0], l.call.I[1] = int64(s.Seed), int64(s.Offset)
	p, err := randomAt(name, l.recorded(), s)
	if err != nil {
		l.recycle()
		return err
	}
	if p != 0 {
		l.words(p, Int64, 2)
	}
	return nil
}

// random adds key and offset of the random numbers of dropout. It gives c back if it fails.
func (p *attending) random(name string, c *launch) error {
	c.call.I[1], c.call.I[2] = int64(p.Random.Seed), int64(p.Random.Offset)
	if p.DropoutP == 0 {
		return nil
	}
	at, err := randomAt(name, c.recorded(), p.Random)
	if err != nil {
		c.recycle()
		return err
	}
	if at != 0 {
		c.call.I[3] = 1
		c.words(at, Int64, 2)
	}
	return nil
}

// randomAt is the address of key and shift for a state, 0 if the numbers are to be those of the state itself.
func randomAt(name string, r *replay.Recording, s GeneratorState) (device.Ptr, error) {
	if r == nil {
		return 0, nil
	}
	if s.use == nil {
		return 0, r.Refuse(&CaptureError{Op: name, Detail: "the generator is not that of the step: each replay would draw the same numbers", Site: programLine()})
	}
	p, err := r.Words(s.use, 2, func() replay.Value { return s.use })
	return p, wrap(name, err)
}

// words adds an input of memory that is a recording's, and so lives as long as the graph.
func (l *launch) words(p device.Ptr, dt DType, n int) {
	v := op.View{Ptr: p, DType: dt, NDim: 1}
	v.Shape[0], v.Strides[0] = n, 1
	l.call.In = append(l.call.In, v)
}

// Changed notes that a replay has changed t in place. It is for packages of this module, which alone can write the key.
func Changed(_ training.Key, t *Tensor) {
	if t.made() {
		t.storage.changed()
	}
}

// CopyOver copies from, of t's shape and type, to t, which is contiguous. From another device it goes by host memory, without a temporary on t's.
// It is for packages of this module, which alone can write the key.
func CopyOver(_ training.Key, t, from *Tensor) error {
	const name = "CopyOver"
	if err := usable(name, t, from); err != nil {
		return err
	}
	if t.exec.sameDevice(from.exec) {
		return t.CopyFrom(from)
	}
	if !t.Shape().Equal(from.Shape()) || t.dtype != from.dtype {
		return shapeErr(name, []Shape{t.Shape(), from.Shape()}, "%s and %s", t.dtype, from.dtype)
	}
	src, err := from.packedCopy(name)
	if err != nil {
		return err
	}
	defer drop(src, from)
	t.storage.changed()
	return wrap(name, t.receive(src))
}

// Place is the same for handles on the same memory, as long as that is not given back. It is for packages of this module, which alone can write the
// key.
func Place(_ training.Key, t *Tensor) any {
	if !t.made() {
		return nil
	}
	return t.storage
}
