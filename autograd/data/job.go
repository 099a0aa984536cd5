package data

import (
	"context"
	"iter"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// job is one batch, from its numbers to its tensors.
type job struct {
	number int
	index  []int64
	place  uint64                // of the first example in the loop
	state  tensor.GeneratorState // of the loop's random numbers

	tensors []*tensor.Tensor
	ready   device.Event // of the upload, if that was on another stream than the loop's
	err     error
	done    chan struct{} // closed when the fields above are set; nil if nobody waits for it
}

// jobs are those of a loop, in order.
func (l *Loader) jobs(plan iter.Seq[[]int64]) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		state, number, place := l.state(), 0, uint64(0)
		for index := range plan {
			if !yield(&job{number: number, index: index, place: place, state: state}) {
				return
			}
			number++
			place += uint64(len(index))
		}
	}
}

// make makes the tensors of a job under e. When it fails, there are none.
func (l *Loader) make(ctx context.Context, e tensor.Exec, j *job) (err error) {
	n := int64(l.count())
	for _, i := range j.index {
		if i < 0 || i >= n {
			return &ExampleError{i, outside(i, int(n))}
		}
	}
	if l.src != nil {
		return l.makeExamples(ctx, e, j)
	}
	defer func() {
		if err != nil {
			err = &BatchError{j.number, j.index, err}
		}
	}()
	var x, y *tensor.Tensor
	err = guarded(func() (err error) {
		x, y, err = l.set.Batch(e, j.index)
		return err
	})
	if err == nil {
		err = check(e, "inputs", x)
	}
	if err == nil && y != nil {
		err = check(e, "targets", y)
	}
	if err != nil {
		x.Release()
		y.Release()
		return err
	}
	if j.tensors = []*tensor.Tensor{x}; y != nil {
		j.tensors = append(j.tensors, y)
	}
	return nil
}

// check refuses what a data set must not return.
func check(e tensor.Exec, what string, t *tensor.Tensor) error {
	switch {
	case t.Released():
		return argumentErr("Batch returned %s that are nil or were released", what)
	case t.Device().ID() != e.Device().ID():
		return &tensor.DeviceError{Op: "Batch", Devices: []device.ID{t.Device().ID(), e.Device().ID()},
			Detail: "the " + what + " must be on the loader's device"}
	}
	return nil
}

// makeExamples is make for data sets that make examples.
func (l *Loader) makeExamples(ctx context.Context, e tensor.Exec, j *job) error {
	examples := make([]Example, 0, min(len(j.index), 1<<16))
	for k, i := range j.index {
		if err := ctx.Err(); err != nil {
			return err
		}
		ex, err := l.example(ctx, i, numbersOf(j.state, j.place+uint64(k)))
		if err != nil {
			return &ExampleError{i, err}
		}
		examples = append(examples, ex)
	}
	var err error
	if l.collate != nil {
		err = l.uploadCollated(e, j, examples)
	} else if err = alike(examples); err != nil {
		m := err.(*misfit) //nolint:errorlint // alike returns no other
		return &ExampleError{j.index[m.at], m.err}
	} else {
		err = l.uploadStacked(e, j, examples)
	}
	if err != nil {
		releaseAll(j.tensors)
		j.tensors = nil
		return &BatchError{j.number, j.index, err}
	}
	return nil
}

// example makes one example.
func (l *Loader) example(ctx context.Context, i int64, r *rand.Rand) (ex Example, err error) {
	err = guarded(func() (err error) {
		ex, err = l.src.Example(ctx, i, r)
		return err
	})
	return ex, err
}

// uploadStacked writes the examples side by side into the memory that is uploaded: there is no batch of them elsewhere.
func (l *Loader) uploadStacked(e tensor.Exec, j *job, examples []Example) error {
	if len(examples) == 0 {
		return argumentErr("the sampler chose a batch of no examples")
	}
	for p, first := range examples[0] {
		t, err := upload(e, first.dtype, stackedShape(examples, p), l.pinned, func(to []byte) {
			for _, ex := range examples {
				to = to[copy(to, ex[p].bytes):]
			}
		})
		if err != nil {
			return err
		}
		j.tensors = append(j.tensors, t)
	}
	return nil
}

// uploadCollated uploads what the program's function makes of the examples.
func (l *Loader) uploadCollated(e tensor.Exec, j *job, examples []Example) error {
	var batch Example
	err := guarded(func() (err error) {
		batch, err = l.collate(examples)
		return err
	})
	if err != nil {
		return err
	}
	if len(batch) == 0 {
		return argumentErr("the Collate function returned no arrays")
	}
	for _, a := range batch {
		if err := a.given(); err != nil {
			return err
		}
		t, err := upload(e, a.dtype, a.shape, l.pinned, func(to []byte) { copy(to, a.bytes) })
		if err != nil {
			return err
		}
		j.tensors = append(j.tensors, t)
	}
	return nil
}
