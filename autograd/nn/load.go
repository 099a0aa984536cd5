package nn

import (
	stderrors "errors"
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/autograd/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// Load sets the values of m's parameters and buffers, which To has given memory, to those that Save, or another program, wrote in the
// safetensors format. Values are converted to the types that the model has. File and model must have the same names and shapes, else
// the error is a *MismatchError. A file that is cut short, goes on after its end, or is not what its checksum says is a *FormatError;
// files without a checksum, which other programs write, are checked for all but that.
//
// The whole file is read and checked before anything changes, and memory is taken for what is there, not for what a header claims.
// A file, or any other io.Seeker, is read twice, the second time with one parameter at a time in host memory. What else is read is
// kept in host memory until all is there, and so are the values that it replaces, which come back if a device fails meanwhile. The
// device needs no second copy of the model. Where the model was changed in part nevertheless the error is a *PartialError.
func Load(r io.Reader, m Module) error {
	if r == nil {
		return argumentErr("Load", "the reader is nil")
	}
	l := &load{file: nameOf(r), named: NamedState(m)}
	home, end, err := safetensors.Home()
	if err != nil {
		return located(l.file, err)
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
	file  string
	named []Named
	home  tensor.Exec // host memory for what is read
}

func (l *load) end(err error, end func() error) error { return stderrors.Join(err, end()) }

// open reads the header and pairs tensors and parameters, in the order of the data.
func (l *load) open(r io.Reader) (*safetensors.Reader, []Named, error) {
	f, err := safetensors.NewReader(r)
	if err != nil {
		return nil, nil, located(l.file, err)
	}
	named, err := l.match(f.Entries)
	return f, named, err
}

// twice checks the file, and then reads it again into the model.
func (l *load) twice(s io.ReadSeeker, start int64) error {
	f, named, err := l.open(s)
	if err != nil {
		return err
	}
	if err := f.Skip(); err != nil {
		return located(l.file, err)
	}
	if err := f.Finish(); err != nil {
		return located(l.file, err)
	}
	if _, err := s.Seek(start, io.SeekStart); err != nil {
		return located(l.file, err)
	}
	again, err := safetensors.NewReader(s)
	if err != nil {
		return located(l.file, err)
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
		if err = located(l.file, err); len(loaded) == 0 || err == nil {
			return err
		}
		return &PartialError{l.file, loaded, err}
	}
	for _, n := range named {
		values, err := f.Next()
		if err != nil {
			return fail(err)
		}
		loaded = append(loaded, n.Name)
		if err := values.To(n.Parameter.Tensor(), l.home); err != nil {
			return fail(fmt.Errorf("%s: %w", n.Name, err))
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
		values, err := f.Next()
		if err != nil {
			return located(l.file, err)
		}
		from, err := values.Tensor(l.home)
		if err != nil {
			return located(l.file, fmt.Errorf("%s: %w", n.Name, err))
		}
		defer from.Release()
		x.Add(n.Name, n.Parameter.Tensor(), from)
	}
	if err := f.Finish(); err != nil {
		return located(l.file, err)
	}
	if err := x.Apply(); err != nil {
		if undone := x.Undo(); undone != nil {
			return &PartialError{l.file, nil, stderrors.Join(err, undone)}
		}
		return located(l.file, err)
	}
	return nil
}

// match pairs tensors and parameters, in the order of the data.
func (l *load) match(entries []safetensors.Entry) ([]Named, error) {
	inFile := make(map[string]safetensors.Entry, len(entries))
	for _, e := range entries {
		inFile[e.Name] = e
	}
	bad := MismatchError{File: l.file}
	inModel := make(map[string]Named, len(l.named))
	for _, n := range l.named {
		if _, twice := inModel[n.Name]; twice {
			return nil, argumentErr("Load", "two parameters are called %s", n.Name)
		}
		inModel[n.Name] = n
		e, ok := inFile[n.Name]
		switch {
		case !ok:
			bad.Missing = append(bad.Missing, n.Name)
		case !n.Parameter.Shape().Equal(e.Shape):
			bad.Shapes = append(bad.Shapes, fmt.Sprintf("%s (file %v, model %v)", n.Name, tensor.Shape(e.Shape), n.Parameter.Shape()))
		case n.Parameter.Tensor() == nil:
			return nil, argumentErr("Load", "parameter %s has no memory: call To on the model first", n.Name)
		}
	}
	ordered := make([]Named, len(entries))
	for i, e := range entries {
		n, ok := inModel[e.Name]
		if !ok {
			bad.Unexpected = append(bad.Unexpected, e.Name)
		}
		ordered[i] = n
	}
	if len(bad.Missing)+len(bad.Unexpected)+len(bad.Shapes) > 0 {
		return nil, &bad
	}
	return ordered, nil
}
