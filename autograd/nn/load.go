package nn

import (
	stderrors "errors"
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/autograd/internal/statedict"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// Load sets the values of m's parameters and buffers, which To has given memory, to those that Save, or another program, wrote in the
// safetensors format. Values are converted to the types that the model has. File and model must have the same names and shapes, else
// the error is a *MismatchError; what the model shares is in the file under one of its names or several, of which the last in the file
// counts. With Partial either may have what the other has not, and with Rename the file may have other names. A file that is cut short, goes on after its end, or is not what its checksum says is a *FormatError;
// files without a checksum, which other programs write, are checked for all but that.
//
// The whole file is read and checked before anything changes, and memory is taken for what is there, not for what a header claims.
// A file, or any other io.Seeker, is read twice, the second time with one parameter at a time in host memory. What else is read is
// kept in host memory until all is there, and so are the values that it replaces, which come back if a device fails meanwhile. The
// device needs no second copy of the model. Where the model was changed in part nevertheless the error is a *PartialError.
func Load(r io.Reader, m Module, opts ...LoadOption) error {
	if why := isnil.Why("reader", r); why != "" {
		return argumentErr("Load", "%s", why)
	}
	if err := Check(m); err != nil {
		return err
	}
	l := &load{file: nameOf(r), named: AllNamedState(m)}
	for _, o := range opts {
		if o != nil {
			o(&l.LoadSettings)
		}
	}
	home, end, err := safetensors.Home()
	if err != nil {
		return inFile("", l.file, err)
	}
	l.home = home
	if s, ok := r.(io.ReadSeeker); ok {
		if start, failed := s.Seek(0, io.SeekCurrent); failed == nil { // it does on pipes
			return l.end(l.twice(s, start), end)
		}
	}
	return l.end(l.staged(r), end)
}

// load is one call of Load.
type load struct {
	LoadSettings
	file  string
	named []Named     // each parameter under all of its names
	home  tensor.Exec // host memory for what is read
	left  Unmatched
}

func (l *load) end(err error, end func() error) error {
	if err == nil && l.Unmatched != nil {
		*l.Unmatched = l.left
	}
	return stderrors.Join(err, end())
}

// open reads the header and pairs tensors and parameters, in the order of the data.
func (l *load) open(r io.Reader) (*safetensors.Reader, []Named, error) {
	f, err := safetensors.NewReader(r)
	if err != nil {
		return nil, nil, inFile("", l.file, err)
	}
	named, err := l.match(f.Entries)
	var other *MismatchError
	if f.IsCheckpoint() && l.Rename == nil && (l.Partial || stderrors.As(err, &other)) {
		err = &MismatchError{File: l.file, Detail: "it is a checkpoint of a training run: Checkpoint.Read of package autograd/checkpoint loads it"}
	}
	return f, named, err
}

// twice checks the file, and then reads it again into the model.
func (l *load) twice(s io.ReadSeeker, start int64) error {
	f, named, err := l.open(s)
	if err != nil {
		return err
	}
	if err := f.Skip(); err != nil {
		return inFile("", l.file, err)
	}
	if err := f.Finish(); err != nil {
		return inFile("", l.file, err)
	}
	if _, err := s.Seek(start, io.SeekStart); err != nil {
		return inFile("", l.file, err)
	}
	again, err := safetensors.NewReader(s)
	if err != nil {
		return inFile("", l.file, err)
	}
	if !again.Same(f.Header) {
		return &FormatError{File: l.file, Detail: "the file was changed while it was read"}
	}
	return l.stream(again, named)
}

// stream reads the tensors into the parameters.
func (l *load) stream(f *safetensors.Reader, named []Named) error {
	loaded := []string{}
	fail := func(err error) error {
		if err = inFile("", l.file, err); len(loaded) == 0 || err == nil {
			return err
		}
		return &PartialError{l.file, loaded, err}
	}
	for _, n := range named {
		if n.Parameter == nil {
			if err := f.SkipOne(); err != nil {
				return fail(err)
			}
			continue
		}
		values, err := f.Next()
		if err != nil {
			return fail(err)
		}
		loaded = append(loaded, n.Name)
		if err := values.To(n.Parameter.Tensor(), l.home); err != nil {
			return fail(fmt.Errorf("%s: %w", excerpt.Of(n.Name), err))
		}
	}
	return fail(f.Finish())
}

// staged reads all of the file to host memory first.
func (l *load) staged(r io.Reader) error {
	f, named, err := l.open(r)
	if err != nil {
		return err
	}
	x := new(safetensors.Exchange)
	for _, n := range named {
		if n.Parameter == nil {
			if err := f.SkipOne(); err != nil {
				return inFile("", l.file, err)
			}
			continue
		}
		values, err := f.Next()
		if err != nil {
			return inFile("", l.file, err)
		}
		from, err := values.Tensor(l.home)
		if err != nil {
			return inFile("", l.file, fmt.Errorf("%s: %w", excerpt.Of(n.Name), err))
		}
		defer from.Release()
		x.Add(n.Name, n.Parameter.Tensor(), from)
	}
	if err := f.Finish(); err != nil {
		return inFile("", l.file, err)
	}
	if err := x.Apply(); err != nil {
		if undone := x.Undo(); undone != nil {
			return &PartialError{l.file, nil, stderrors.Join(err, undone)}
		}
		return inFile("", l.file, err)
	}
	return nil
}

// match pairs tensors and parameters, in the order of the data. Tensors that the model has not, or that Rename leaves out, are without a parameter.
func (l *load) match(entries []safetensors.Entry) ([]Named, error) {
	model, file := make([]statedict.Named, len(l.named)), make([]statedict.Entry, len(entries))
	for i, n := range l.named {
		model[i] = statedict.Named(n)
	}
	for i, e := range entries {
		file[i] = statedict.Entry{Name: e.Name, Shape: e.Shape}
	}
	file, at, err := statedict.Rename(file, l.Rename)
	if err != nil {
		return nil, &MismatchError{File: l.file, Detail: err.Error()}
	}
	found := statedict.New(model, file)
	if found.Twice != "" {
		return nil, &NameError{Name: found.Twice, Detail: "two parameters of the model have it"}
	}
	if !found.Fits() && !(l.Partial && found.FitsInPart(len(entries))) {
		return nil, l.mismatch(found)
	}
	l.left.Missing, l.left.Unexpected = found.Names()
	ordered := make([]Named, len(entries))
	for i, p := range found.To {
		if ordered[at[i]] = (Named{file[i].Name, p}); p != nil && p.Tensor() == nil {
			return nil, argumentErr("Load", "parameter %s has no memory: call To on the model first", excerpt.Of(file[i].Name))
		}
		if err := entries[at[i]].Unreadable(); p != nil && err != nil {
			return nil, inFile("", l.file, err)
		}
	}
	return ordered, nil
}

func (l *load) mismatch(found *statedict.Match) error {
	bad := MismatchError{File: l.file}
	bad.Missing, bad.Unexpected = found.Names()
	for _, o := range found.Shapes {
		bad.Shapes = append(bad.Shapes, fmt.Sprintf("%s (file %v, model %v)", o.Name, o.Found, o.Parameter.Shape()))
	}
	return &bad
}
