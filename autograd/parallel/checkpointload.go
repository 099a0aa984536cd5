package parallel

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// loading is one call of Read on a rank: what it needs is read to host memory and checked (prepare), then set (apply), which can be undone.
type loading struct {
	c      *Checkpoint
	folder string
	index  *index

	home    tensor.Exec // host memory for what is read
	end     func() error
	parts   map[int]*openPart
	read    []*tensor.Tensor // what there is of it
	changes []change
	applied int // how many of them may have changed something
}

// change is what is to be done, and where it is from.
type change struct {
	name string
	checkpoint.Change
}

// openPart is a part that this rank reads from.
type openPart struct {
	partFile
	header  *safetensors.Header
	entries map[string]safetensors.Entry
}

// missing reports whether a file is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func (l *loading) readIndex() (err error) {
	l.index, err = readIndexFile(l.c.sys, l.folder)
	return err
}

// sameIndex is an error on all ranks if they have read different ones, as in folders that are not shared.
func (l *loading) sameIndex(op string) error {
	d := l.c.d
	if d == nil {
		return nil
	}
	own := int64(binary.LittleEndian.Uint64([]byte(l.index.Save)[:8])) ^ int64(crc32.ChecksumIEEE([]byte(l.index.Save+l.index.Checksum)))<<16
	all, err := d.gatherNumbers("comparison of the indexes", own)
	if err != nil {
		return d.fatal(op, err)
	}
	for rank, other := range all {
		if other != all[0] {
			return &CheckpointError{Op: op, Rank: rank, Err: &checkpoint.MismatchError{File: l.index.file, Detail: "it is not the index that rank 0 has read: the ranks need one folder"}}
		}
	}
	return nil
}

// prepare reads and checks all that this rank needs, and takes the memory for it.
func (l *loading) prepare(ctx context.Context) (err error) {
	if l.home, l.end, err = safetensors.Home(); err != nil {
		return err
	}
	if err := l.known(); err != nil {
		return err
	}
	if err := l.verify(ctx); err != nil {
		return err
	}
	if err := l.prepareModel(ctx); err != nil {
		return err
	}
	for _, name := range l.c.names {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, prepare := l.c.sections[name], l.prepareSection
		if s.opt != nil {
			prepare = l.prepareOptimizer
		}
		if err := prepare(name, s); err != nil {
			return l.about(name, err)
		}
	}
	return ctx.Err()
}

// about says where an error is from.
func (l *loading) about(section string, err error) error {
	switch e := err.(type) {
	case *checkpoint.MismatchError:
		own := *e
		own.File, own.Section = l.index.file, section
		return &own
	case *checkpoint.FormatError, *checkpoint.FileError:
		return err
	}
	return within(l.index.file, section, err)
}

// known refuses a checkpoint that has other sections.
func (l *loading) known() error {
	other := func(name, detail string) error {
		return &checkpoint.MismatchError{File: l.index.file, Section: name, Detail: detail}
	}
	for _, name := range l.c.names {
		_, optimizer := l.index.Optimizers[name]
		saved, plain := l.index.Sections[name]
		s := l.c.sections[name]
		switch {
		case !optimizer && !plain:
			return other(name, "the checkpoint has no such section")
		case optimizer != (s.opt != nil) || plain && saved.Own != s.own:
			return other(name, "the checkpoint has it as another one of Optimizer, Add and AddOwn")
		}
	}
	if l.c.modelOnly {
		return nil
	}
	for _, name := range append(slices.Sorted(maps.Keys(l.index.Sections)), slices.Sorted(maps.Keys(l.index.Optimizers))...) {
		if _, ok := l.c.sections[name]; !ok {
			return other(name, "the checkpoint has this section, the program has not")
		}
	}
	return nil
}

// verify compares the checksums of those parts whose turn it is on this rank.
func (l *loading) verify(ctx context.Context) error {
	for i := l.c.rank(); i < len(l.index.Files); i += l.c.ranks() {
		p, err := l.part(i)
		if err != nil {
			return err
		}
		file := l.fileOf(i)
		r, err := safetensors.NewReader(io.NewSectionReader(p, 0, p.header.Len()))
		for err == nil {
			if err = ctx.Err(); err == nil {
				err = r.SkipOne()
			}
		}
		if errors.Is(err, io.EOF) {
			err = r.Finish()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return readError(file, err)
		}
	}
	return nil
}

func readError(file string, err error) error {
	var unsound *safetensors.Error
	if errors.As(err, &unsound) {
		return located(file, unsound)
	}
	return fileError(file, "read", err)
}

// apply makes the changes, up to one that fails.
func (l *loading) apply() error {
	for i, c := range l.changes {
		if c.Apply == nil {
			continue
		}
		l.applied = i + 1
		if err := c.Apply(); err != nil {
			return l.about(c.name, err)
		}
	}
	return nil
}

// undo takes the changes back, the last one first.
func (l *loading) undo() (err error) {
	for _, c := range slices.Backward(l.changes[:l.applied]) {
		if c.Undo != nil {
			err = errors.Join(err, c.Undo())
		}
	}
	return err
}

// release gives back what was read.
func (l *loading) release() {
	for _, c := range l.changes {
		if c.Close != nil {
			c.Close()
		}
	}
	for _, t := range l.read {
		t.Release()
	}
	for _, p := range l.parts {
		_ = p.Close() // it was only read
	}
	if l.end != nil {
		_ = l.end() // nothing is left there
	}
}

func (l *loading) saved() Saved {
	x := l.index
	return Saved{Step: x.Step, Ranks: x.Ranks, Stage: x.Stage, Own: x.Ranks == l.c.ranks()}
}

// takeOrder takes the order of the parameters that was learned, so that sums are made in the same pieces as before. It changes nothing else.
func (c *Checkpoint) takeOrder(op string, x *index) error {
	d := c.d
	if d == nil || d.learned || d.set.unused || x.Ranks != c.ranks() || x.Stage != c.stage() || len(x.Order) != len(d.params) {
		return nil
	}
	at := map[string]int{}
	for i, q := range d.params {
		at[q.name] = i
	}
	order := make([]int64, len(x.Order))
	seen := map[int]bool{}
	for i, name := range x.Order {
		k, ok := at[name]
		if !ok || seen[k] {
			return nil // of a model with other names: it learns its own
		}
		order[i], seen[k] = int64(k), true
	}
	d.learned = true
	return d.wrong(op, d.rearrange(order))
}
