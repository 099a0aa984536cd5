package nn

import (
	"cmp"
	stderrors "errors"
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/internal/statedict"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// Load sets the values of m's parameters and buffers, to which To has given memory or, with Unset, a place, to those that Save, or another
// program, wrote in the safetensors format. Values are converted to the types that the model has. File and model must have the same names
// and shapes, else the error is a *MismatchError; what the model shares is in the file under one of its names or several, of which the
// last in the file counts. With Partial either may have what the other has not, with Rename the file may have other names, with Transposed
// other matrices, and Only loads a part of the model. A file that is cut short, goes on after its end, or is not what its checksum says is
// a *FormatError; files without a checksum, which other programs write, are checked for all but that. LoadFile is for files that are open,
// and models in shards.
//
// The whole file is read and checked before anything changes, and memory is taken for what is there, not for what a header claims.
// A file, or any other io.Seeker, is read twice, the second time with one parameter at a time in host memory. What else is read is
// kept in host memory until all is there, and so are the values that it replaces, which come back if a device fails meanwhile. The
// device needs no second copy of the model. Where the model was changed in part nevertheless the error is a *PartialError.
func Load(r io.Reader, m Module, opts ...LoadOption) error {
	if why := isnil.Why("reader", r); why != "" {
		return argumentErr("Load", "%s", why)
	}
	l, end, err := newLoad("", nameOf(r), m, opts)
	if err != nil {
		return err
	}
	if s, ok := r.(io.ReadSeeker); ok {
		if start, failed := s.Seek(0, io.SeekCurrent); failed == nil { // it does on pipes
			return l.end(l.twice(s, start), end)
		}
	}
	return l.end(l.staged(r), end)
}

// load is one call of Load or LoadFile.
type load struct {
	LoadSettings
	call  string // of errors
	file  string
	named []Named     // each parameter under all of its names
	home  tensor.Exec // host memory for what is read
	left  Unmatched
}

// paired is a parameter under a name, and where its values go.
type paired struct {
	Named // the parameter is nil for a tensor that the model has not
	place safetensors.Place
}

func newLoad(call, file string, m Module, opts []LoadOption) (l *load, end func() error, err error) {
	if err := Check(m); err != nil {
		return nil, nil, err
	}
	l = &load{call: call, file: file, named: AllNamedState(m)}
	for _, o := range opts {
		if o != nil {
			o(&l.LoadSettings)
		}
	}
	if l.home, end, err = safetensors.Home(); err != nil {
		return nil, nil, l.located(err)
	}
	return l, end, nil
}

func (l *load) located(err error) error { return inFile(l.call, l.file, err) }

func (l *load) end(err error, end func() error) error {
	if err == nil && l.Unmatched != nil {
		*l.Unmatched = l.left
	}
	return stderrors.Join(err, end())
}

// open reads the header and pairs tensors and parameters, in the order of the data.
func (l *load) open(r io.Reader) (*safetensors.Reader, []paired, error) {
	f, err := safetensors.NewReader(r)
	if err != nil {
		return nil, nil, l.located(err)
	}
	pairs, err := l.match(f.Entries, f.IsCheckpoint())
	return f, pairs, err
}

// twice checks the file, and then reads it again into the model.
func (l *load) twice(s io.ReadSeeker, start int64) error {
	f, pairs, err := l.open(s)
	if err != nil {
		return err
	}
	if err := f.Skip(); err != nil {
		return l.located(err)
	}
	if err := f.Finish(); err != nil {
		return l.located(err)
	}
	if _, err := s.Seek(start, io.SeekStart); err != nil {
		return l.located(err)
	}
	again, err := safetensors.NewReader(s)
	if err != nil {
		return l.located(err)
	}
	if !again.Same(f.Header) {
		return &FormatError{File: l.file, Detail: "the file was changed while it was read"}
	}
	return l.stream(again, pairs)
}

// stream reads the tensors into the parameters.
func (l *load) stream(f *safetensors.Reader, pairs []paired) error {
	var begun []paired
	for _, p := range pairs {
		if p.Parameter == nil {
			if err := f.SkipOne(); err != nil {
				return l.undo(begun, err)
			}
			continue
		}
		values, err := f.Next()
		if err != nil {
			return l.undo(begun, err)
		}
		begun = append(begun, p)
		if err := values.Put(p.place, l.home); err != nil {
			return l.undo(begun, fmt.Errorf("%s: %w", excerpt.Of(p.Name), err))
		}
	}
	if err := f.Finish(); err != nil {
		return l.undo(begun, err)
	}
	return nil
}

// undo is what becomes of an error after parameters have, or may have, new values: those that had none have none again, and where others have
// them it is a *PartialError.
func (l *load) undo(begun []paired, err error) error {
	loaded := []string{}
	for _, p := range begun {
		if p.place.Tensor == nil {
			p.place.Take()
			continue
		}
		loaded = append(loaded, p.Name)
	}
	if err = l.located(err); len(loaded) == 0 {
		return err
	}
	return &PartialError{l.call, l.file, loaded, err}
}

// staged reads all of the file to host memory first.
func (l *load) staged(r io.Reader) error {
	f, pairs, err := l.open(r)
	if err != nil {
		return err
	}
	x := new(safetensors.Exchange)
	for _, p := range pairs {
		if p.Parameter == nil {
			if err := f.SkipOne(); err != nil {
				return l.located(err)
			}
			continue
		}
		values, err := f.Next()
		if err != nil {
			return l.located(err)
		}
		from, err := values.Tensor(l.home)
		if err != nil {
			return l.located(fmt.Errorf("%s: %w", excerpt.Of(p.Name), err))
		}
		defer from.Release()
		x.Add(p.Name, p.place, from)
	}
	if err := f.Finish(); err != nil {
		return l.located(err)
	}
	if err := x.Apply(); err != nil {
		if undone := x.Undo(); undone != nil {
			return &PartialError{l.call, l.file, nil, stderrors.Join(err, undone)}
		}
		return l.located(err)
	}
	return nil
}

// match pairs tensors and parameters, in the order of the data. Tensors that the model has not, or that options leave out, are without a
// parameter.
func (l *load) match(entries []safetensors.Entry, checkpoint bool) ([]paired, error) {
	pairs, err := l.pair(entries)
	var other *MismatchError
	if checkpoint && l.Rename == nil && (l.Partial || stderrors.As(err, &other)) {
		return nil, l.mismatched("it is a checkpoint of a training run: Checkpoint.Read of package autograd/checkpoint loads it")
	}
	return pairs, err
}

func (l *load) pair(entries []safetensors.Entry) ([]paired, error) {
	model, file := make([]statedict.Named, len(l.named)), make([]statedict.Entry, len(entries))
	for i, n := range l.named {
		model[i] = statedict.Named(n)
	}
	for i, e := range entries {
		file[i] = statedict.Entry{Name: e.Name, Shape: e.Shape}
	}
	model, file, at, err := statedict.Changes{Rename: l.Rename, Transposed: l.Transposed, Only: l.Only}.Apply(model, file)
	if err != nil {
		return nil, l.mismatched(err.Error())
	}
	found := statedict.New(model, file)
	if found.Twice != "" {
		return nil, &NameError{Name: found.Twice, Detail: "two parameters of the model have it"}
	}
	if !found.Fits() && !(l.Partial && found.FitsInPart(len(entries))) {
		return nil, l.mismatch(found)
	}
	l.left.Missing, l.left.Unexpected = found.Names()
	pairs := make([]paired, len(entries))
	for i, p := range found.To {
		if pairs[at[i]], err = l.placed(file[i], p, entries[at[i]]); err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

// placed is a tensor of the file and where it goes.
func (l *load) placed(e statedict.Entry, p *autograd.Parameter, in safetensors.Entry) (pair paired, err error) {
	pair.Named = Named{e.Name, p}
	if p == nil {
		return pair, nil
	}
	if err := in.Unreadable(); err != nil {
		return pair, l.located(err)
	}
	var ok bool
	if pair.place, ok = statedict.PlaceOf(p); !ok {
		return pair, argumentErr(cmp.Or(l.call, "Load"), "parameter %s has no memory: %s", excerpt.Of(e.Name), cmp.Or(unset(p), "call To on the model first"))
	}
	pair.place.Transposed = e.Transposed
	return pair, nil
}

func (l *load) mismatched(detail string) error {
	return &MismatchError{Call: l.call, File: l.file, Detail: detail}
}

func (l *load) mismatch(found *statedict.Match) error {
	bad := MismatchError{Call: l.call, File: l.file}
	bad.Missing, bad.Unexpected = found.Names()
	for _, o := range found.Shapes {
		bad.Shapes = append(bad.Shapes, fmt.Sprintf("%s (file %v, model %v)", o.Name, o.Found, o.Parameter.Shape()))
	}
	return &bad
}
