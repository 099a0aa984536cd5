package parallel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// Checkpoint is the state of a training run of all ranks, in a folder to which each of them writes its part. It is read by as many ranks, or by others, with the same ZeRO stage
// or another, or without a group (PlainCheckpoint). As many ranks with the same options and the same stage go on as if they had not stopped: on the host bit for bit.
//
//	c := parallel.NewCheckpoint(d)
//	c.Optimizer("optimizer", opt)
//	c.Add("scaler", checkpoint.State(scaler))
//	c.Add("sampler", checkpoint.State(sampler))
//	c.AddOwn("generator", checkpoint.Generator(gen)) // each rank has its own
//	...
//	err := c.Write(ctx, "run", step)   // all ranks, between two steps
//	...
//	saved, err := c.Read(ctx, "run")   // all ranks, into new objects, made as the old ones were
//	...                                // and from saved.Step on
//
// The parts are files of package autograd/checkpoint's format, with its checksum: safetensors. "index.json" says which tensor has which shape and type, and where its elements are: in which part,
// from which on, how many. What all ranks have the same is written once, by the ranks in turn. Tensors are called as by package checkpoint ("model.0.weight"), the optimizer's by the
// parameter in the place of its number ("optimizer.0.weight.exp_avg").
//
// The parts have names of their own in each Write, and the index, which names them, is replaced last, at once: who is killed before leaves the old checkpoint as it was. Parts that
// no index names are removed by the next Write. The folder is one that all ranks see; one program at a time writes to it.
//
// Read checks all before it changes anything: that the parts are there, whole and of one Write (checksums; the ranks share the work), that model and optimizer are those that were saved, and
// that there is memory. What is wrong on one rank is the error of all, a *CheckpointError that names it, in which are package checkpoint's: a *checkpoint.FormatError for a file that is
// damaged, cut short or of another Write, a *checkpoint.MismatchError for another program's, a *checkpoint.FileError of the file system. The group goes on. If a device fails while values are
// set, they are put back on all ranks.
//
// A Checkpoint is for one goroutine at a time. Gradients are not in it: save between steps.
type Checkpoint struct {
	d     *DataParallel // nil without a group
	model nn.Module

	names      []string
	sections   map[string]section
	optimizers []string
	modelOnly  bool
	err        error
	sys        storage
}

// section is what a program has added.
type section struct {
	checkpoint.Section
	opt *optim.Grouped // in its place
	own bool
}

// modelSection is the section of the model.
const modelSection = "model"

// NewCheckpoint is the checkpoint of a training run of a group. It has the model already, in the section "model": parameters, with MasterWeights in float32, and buffers.
func NewCheckpoint(d *DataParallel) *Checkpoint {
	c := &Checkpoint{d: d, sys: system{}}
	if d == nil || d.comm == nil {
		c.fail(&Error{Op: "NewCheckpoint", Rank: -1, Detail: "the DataParallel was not made by Data"})
		return c
	}
	c.model = d.model
	return c
}

// PlainCheckpoint is the checkpoint of a model that one process trains without a group: it reads what a group has written, and writes what one reads.
func PlainCheckpoint(model nn.Module) *Checkpoint {
	c := &Checkpoint{model: model, sys: system{}}
	if why := isnil.Why("model", model); why != "" {
		c.fail(&Error{Op: "PlainCheckpoint", Rank: -1, Detail: why})
	} else if err := nn.Check(model); err != nil {
		c.fail(err)
	}
	return c
}

// Optimizer adds the state of an optimizer of DataParallel.Parameters, or of the model's for PlainCheckpoint, by the names of the parameters. Groups are matched by their place; a
// parameter's must be the same.
func (c *Checkpoint) Optimizer(name string, o *optim.Grouped) *Checkpoint {
	c = c.add(name, section{opt: o}, isnil.Why("optimizer", o))
	c.optimizers = append(c.optimizers, name)
	return c
}

// Add adds what is the same on all ranks, such as the state of a schedule, a GradScaler or a Sampler: rank 0's is saved, and all get it. The name has no dot.
func (c *Checkpoint) Add(name string, s checkpoint.Section) *Checkpoint {
	return c.add(name, section{Section: s}, isnil.Why("section", s))
}

// AddOwn adds what each rank has for itself, such as a generator of random numbers. Another number of ranks leaves it as it is (Saved.Own), since no rank is the one that was: give
// each a seed of its own then.
func (c *Checkpoint) AddOwn(name string, s checkpoint.Section) *Checkpoint {
	return c.add(name, section{Section: s, own: true}, isnil.Why("section", s))
}

// ModelOnly lets Read leave out what the checkpoint has beside the model and the sections that were added: to look at a model, or to begin another training with it, without the optimizer that
// it was trained with.
func (c *Checkpoint) ModelOnly() *Checkpoint {
	if c == nil {
		return c.add("", section{}, "")
	}
	c.modelOnly = true
	return c
}

func (c *Checkpoint) add(name string, s section, why string) *Checkpoint {
	if c == nil {
		c = &Checkpoint{err: &Error{Op: "Checkpoint", Rank: -1, Detail: nilCheckpoint}}
	}
	_, twice := c.sections[name]
	switch {
	case name == "" || strings.Contains(name, ".") || !utf8.ValidString(name):
		c.fail(&checkpoint.MismatchError{Section: excerpt.Quote(name), Detail: "the name of a section is UTF-8, not empty, and has no dot"})
	case twice || name == modelSection:
		c.fail(&checkpoint.MismatchError{Section: name, Detail: "two sections are called so"})
	case why != "":
		c.fail(&checkpoint.MismatchError{Section: name, Detail: why})
	}
	if c.sections == nil {
		c.sections = map[string]section{}
	}
	c.names, c.sections[name] = append(c.names, name), s
	return c
}

const nilCheckpoint = "the checkpoint is nil: make one with NewCheckpoint"

func (c *Checkpoint) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Saved says what a checkpoint is of.
type Saved struct {
	Step  int  // as it was given to Write
	Ranks int  // that have written it
	Stage int  // of ZeRO
	Own   bool // what ranks have for themselves (AddOwn) was read too, as there are as many
}

// CheckpointError is an error of Write or Read on one rank, which all ranks return: nothing was changed.
type CheckpointError struct {
	Op   string // "Write" or "Read"
	Rank int    // where it went wrong
	Err  error  // what, there; on other ranks its type is one of package checkpoint's, or it is the text
}

// Error is one line.
func (e *CheckpointError) Error() string {
	return fmt.Sprintf("parallel: %s of a checkpoint: rank %d: %v", e.Op, e.Rank, e.Err)
}

// Unwrap returns the cause.
func (e *CheckpointError) Unwrap() error { return e.Err }

// ready is what is wrong before there is any collective.
func (c *Checkpoint) ready(op string) error {
	if c == nil {
		return &Error{Op: op, Rank: -1, Detail: nilCheckpoint}
	}
	switch {
	case c.d == nil && c.model == nil && c.err == nil:
		return &Error{Op: op, Rank: -1, Detail: "the Checkpoint was not made by NewCheckpoint or PlainCheckpoint"}
	case c.d != nil && c.d.comm != nil && c.d.closed:
		return c.d.mistake(op, "the DataParallel is closed")
	case c.d != nil && c.d.broken != nil:
		return c.d.broken
	case c.d != nil && c.d.inside:
		return c.d.mistake(op, "within Whole the ranks' parts have the values from before: call it after Whole has returned")
	case c.d != nil && c.d.comm != nil && !c.d.exec.Computes():
		return c.d.mistake(op, "a simulated device has no values")
	case c.d == nil || c.d.comm == nil:
		return c.err
	}
	return nil // c.err is for all ranks to know
}

// check is what is wrong on this rank with the arguments, or with the time.
func (c *Checkpoint) check(op string, ctx context.Context) error {
	if why := isnil.Why("context", ctx); c.err == nil && why != "" {
		return &checkpoint.ArgumentError{Call: "Checkpoint", Detail: why + ": give context.Background()"}
	}
	if c.err == nil && c.d != nil {
		if why := c.d.midStep(); why != "" {
			return c.d.mistake(op, "%s", why)
		}
	}
	return c.err
}

func (c *Checkpoint) rank() int {
	if c.d == nil {
		return 0
	}
	return c.d.comm.Rank()
}

func (c *Checkpoint) ranks() int {
	if c.d == nil {
		return 1
	}
	return c.d.comm.Size()
}

func (c *Checkpoint) stage() int {
	if c.d == nil {
		return 0
	}
	return c.d.set.stage
}

func (c *Checkpoint) wrong(op string, err error) error {
	if err == nil {
		return nil
	}
	return &CheckpointError{Op: op, Rank: c.rank(), Err: err}
}

// Write writes the checkpoint to a folder, which is made if it is not there, and replaces the one that it has. All ranks call it, between two steps, with the same folder and step, which
// is only noted, and not negative. It waits for the device and for the others: their time limit is longer than writing takes. If ctx is done on a rank before it has written its part, that is the error of all.
// Ranks that give another step or folder, have other sections, or optimizers with other settings, are a *checkpoint.MismatchError on all, before anything is written.
//
// Within NoSync, while gradients of NoSync wait to be summed, and while a forward pass of Run waits for its backward pass, in a graph that was not released, it is an error of all ranks, and within Whole of the rank that calls it there.
func (c *Checkpoint) Write(ctx context.Context, folder string, step int) error {
	const op = "Write"
	if err := c.ready(op); err != nil {
		return err
	}
	done := false
	defer c.d.guard(op, &done)
	err := c.write(ctx, folder, step)
	done = true
	return err
}

// write is Write.
func (c *Checkpoint) write(ctx context.Context, folder string, step int) error {
	const op = "Write"
	w := &saving{c: c, folder: folder, step: step}
	err := c.check(op, ctx)
	if err == nil && step < 0 {
		err = &Error{Op: op, Rank: c.rank(), Detail: fmt.Sprintf("step %d; it must not be negative", step)}
	}
	if err == nil {
		err = w.collect()
	}
	if err := c.agree(op, err); err != nil {
		return err
	}
	if err := w.alike(op); err != nil {
		return err
	}
	if err := w.name(op); err != nil {
		return err
	}
	if c.rank() == 0 {
		defer w.clean() // also after an error: the parts of what has no index
	}
	if err := c.agree(op, w.writePart(ctx)); err != nil {
		return err
	}
	if c.rank() == 0 {
		err = w.writeIndex()
	}
	return c.agree(op, err)
}

// Read reads what Write has written and sets all sections, or none, and returns what it is of. All ranks call it, at the start or between two steps, after the optimizer was made and before it has taken a
// step or after. In the middle of a step it is an error, as Write is.
func (c *Checkpoint) Read(ctx context.Context, folder string) (Saved, error) {
	const op = "Read"
	if err := c.ready(op); err != nil {
		return Saved{}, err
	}
	done := false
	defer c.d.guard(op, &done)
	saved, err := c.read(ctx, folder)
	done = true
	return saved, err
}

// read is Read.
func (c *Checkpoint) read(ctx context.Context, folder string) (Saved, error) {
	const op = "Read"
	l := &loading{c: c, folder: folder}
	defer l.release()
	err := c.check(op, ctx)
	if err == nil {
		err = l.readIndex()
	}
	if err := c.agree(op, err); err != nil {
		return Saved{}, err
	}
	if err := l.sameIndex(op); err != nil {
		return Saved{}, err
	}
	if err := c.agree(op, l.prepare(ctx)); err != nil {
		return Saved{}, err
	}
	failed := l.apply()
	if err := c.agree(op, failed); err != nil {
		return Saved{}, l.takenBack(op, err)
	}
	return l.saved(), c.takeOrder(op, l.index)
}

// takenBack undoes what Read has changed on this rank, after the error of any.
func (l *loading) takenBack(op string, err error) error {
	if undone := l.undo(); undone != nil {
		return l.c.wrong(op, &checkpoint.PartialError{File: l.index.file, Err: errors.Join(err, undone)})
	}
	return err
}
