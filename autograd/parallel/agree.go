package parallel

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// The ranks come to one error where each may have one of its own: a rank that fails alone would leave the others waiting.

// told is an error on its way to other ranks. The types of package checkpoint arrive as such.
type told struct {
	Format   *checkpoint.FormatError   `json:",omitempty"`
	Mismatch *checkpoint.MismatchError `json:",omitempty"`
	File     *fileTold                 `json:",omitempty"`
	Text     string
	Cause    int `json:",omitempty"` // in causes, from 1
}

type fileTold struct{ File, Op, Path, Why string }

// causes are what errors.Is finds in the errors of other ranks too.
var causes = []error{fs.ErrNotExist, fs.ErrPermission, context.Canceled, context.DeadlineExceeded, device.ErrOutOfMemory}

// foreignError is an error of another rank: its text, and of its cause what can be asked for.
type foreignError struct {
	text  string
	cause error
}

func (e *foreignError) Error() string { return e.text }
func (e *foreignError) Unwrap() error { return e.cause }

func tell(err error) []byte {
	t := told{Text: err.Error()}
	for i, cause := range causes {
		if errors.Is(err, cause) {
			t.Cause = i + 1
		}
	}
	var file *checkpoint.FileError
	switch {
	case errors.As(err, &t.Format):
	case errors.As(err, &t.Mismatch):
	case errors.As(err, &file):
		t.File = &fileTold{file.File, file.Op, file.Path, file.Err.Error()}
	}
	text, failed := json.Marshal(t)
	if failed != nil {
		text, _ = json.Marshal(told{Text: err.Error()}) // a text can always be written
	}
	return text
}

func heard(text []byte) error {
	var t told
	if json.Unmarshal(text, &t) != nil {
		return &foreignError{text: string(text)}
	}
	why := &foreignError{text: t.Text}
	if t.Cause > 0 && t.Cause <= len(causes) {
		why.cause = causes[t.Cause-1]
	}
	switch {
	case t.Format != nil:
		return t.Format
	case t.Mismatch != nil:
		return t.Mismatch
	case t.File != nil:
		why.text = t.File.Why
		return &checkpoint.FileError{File: t.File.File, Op: t.File.Op, Path: t.File.Path, Err: why}
	}
	return why
}

// agree returns the error of the first rank that has one, on all ranks. It is one small collective if there is none.
func (c *Checkpoint) agree(op string, own error) error {
	if c.d == nil {
		return c.wrong(op, own)
	}
	d := c.d
	var text []byte
	if own != nil {
		text = tell(own)
	}
	lengths, err := d.gatherNumbers("agreement on "+op+" of a checkpoint", int64(len(text)))
	if err != nil {
		return d.fatal(op, err)
	}
	for rank, n := range lengths {
		if n == 0 {
			continue
		}
		if text, err = d.broadcastBytes("error of "+op+" of a checkpoint", text, int(n), rank); err != nil {
			return d.fatal(op, err)
		}
		if rank == d.comm.Rank() {
			return &CheckpointError{Op: op, Rank: rank, Err: own}
		}
		return &CheckpointError{Op: op, Rank: rank, Err: heard(text)}
	}
	return nil
}

// broadcastBytes returns root's bytes, of which there are n.
func (d *DataParallel) broadcastBytes(op string, own []byte, n, root int) ([]byte, error) {
	words := make([]int64, (n+7)/8)
	if d.comm.Rank() == root {
		words = packed8(own)
	}
	t, err := tensor.FromSlice(d.side, words, len(words))
	if err != nil {
		return nil, d.wrong(op, err)
	}
	defer t.Release()
	if err := d.broadcastFrom(op, t, root); err != nil {
		return nil, err
	}
	if words, err = d.read(op, t); err != nil {
		return nil, err
	}
	return unpacked8(words, n), nil
}

// packed8 puts eight bytes into each number, as collectives send numbers.
func packed8(text []byte) []int64 {
	words := make([]int64, (len(text)+7)/8)
	for i, c := range text {
		words[i/8] |= int64(c) << (8 * (i % 8))
	}
	return words
}

// unpacked8 is the reverse, of n bytes.
func unpacked8(words []int64, n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(words[i/8] >> (8 * (i % 8)))
	}
	return text
}
