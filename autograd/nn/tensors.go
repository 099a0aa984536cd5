package nn

import (
	"fmt"
	"io"
	"slices"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// TensorInfo is what a file in the safetensors format says of one of its tensors.
type TensorInfo struct {
	Name  string
	DType tensor.DType // 0 for a type that package tensor has not
	Shape tensor.Shape
}

// ListTensors lists the tensors of a file in the safetensors format, in the order of their data, and its metadata, which is empty if it has
// none. It reads the header alone: what is in order there may still be cut short behind it. Files of Save, of package checkpoint and of
// other programs will do. What is none of these is a *FormatError.
func ListTensors(r io.Reader) (tensors []TensorInfo, metadata map[string]string, err error) {
	const call = "ListTensors"
	if why := isnil.Why("reader", r); why != "" {
		return nil, nil, argumentErr(call, "%s", why)
	}
	f, err := safetensors.NewReader(r)
	if err != nil {
		return nil, nil, inFile(call, nameOf(r), err)
	}
	tensors = make([]TensorInfo, len(f.Entries))
	for i, e := range f.Entries {
		tensors[i] = TensorInfo{e.Name, e.DType, slices.Clone(e.Shape)}
	}
	return tensors, f.Metadata, nil
}

// ReadTensors reads tensors of a file in the safetensors format by their names, all if none is given, and makes them under e, with the
// types and shapes that they have there. The caller releases them (ReleaseTensors). It is for what belongs to no module: statistics of a
// data set, weights to look into. Load reads models. It is for what can only be read from its beginning to its end, such as a pipe: a file
// is opened with package tensor/safetensors, which reads a tensor when it is asked for.
//
// The whole file is read and checked, one tensor at a time in host memory: with an error, everything that was made is released. A file that
// is cut short, goes on after its end, or is not what its checksum says is a *FormatError; names that it has not are a *MismatchError
// before anything is made. A device that fails, or has not the memory, is an error with the name of the tensor.
func ReadTensors(e tensor.Exec, r io.Reader, names ...string) (tensors map[string]*tensor.Tensor, err error) {
	const call = "ReadTensors"
	if why := isnil.Why("reader", r); why != "" {
		return nil, argumentErr(call, "%s", why)
	}
	if e.Stream() == nil {
		return nil, &tensor.DeviceError{Op: call, Detail: "zero Exec: make one with tensor.On"}
	}
	file := nameOf(r)
	f, err := safetensors.NewReader(r)
	if err != nil {
		return nil, inFile(call, file, err)
	}
	wanted, missing := choose(f.Entries, names)
	if len(missing) > 0 {
		return nil, &MismatchError{Call: call, File: file, Missing: missing}
	}
	for _, entry := range f.Entries {
		if err := entry.Unreadable(); err != nil && wanted[entry.Name] {
			return nil, inFile(call, file, err)
		}
	}
	made, done := map[string]*tensor.Tensor{}, false
	defer func() {
		if !done { // also after a panic of the reader's
			ReleaseTensors(made)
		}
	}()
	if err := readInto(made, f, e, wanted); err != nil {
		return nil, inFile(call, file, err)
	}
	done = true
	return made, nil
}

// ReleaseTensors releases all tensors of a map, as ReadTensors returns it, and empties it.
func ReleaseTensors(tensors map[string]*tensor.Tensor) {
	for _, t := range tensors {
		t.Release()
	}
	clear(tensors)
}

// choose is which names to read, and those that the file has not.
func choose(entries []safetensors.Entry, names []string) (wanted map[string]bool, missing []string) {
	wanted = make(map[string]bool, len(entries))
	for _, e := range entries {
		wanted[e.Name] = len(names) == 0
	}
	for _, n := range names {
		if _, there := wanted[n]; !there {
			missing = append(missing, n)
			continue
		}
		wanted[n] = true
	}
	return wanted, missing
}

// readInto reads the file to its end, and makes what is wanted of it. What was made is in tensors also if it fails.
func readInto(tensors map[string]*tensor.Tensor, f *safetensors.Reader, e tensor.Exec, wanted map[string]bool) error {
	for _, entry := range f.Entries {
		if !wanted[entry.Name] {
			if err := f.SkipOne(); err != nil {
				return err
			}
			continue
		}
		values, err := f.Next()
		if err != nil {
			return err
		}
		if tensors[entry.Name], err = values.Tensor(e); err != nil {
			delete(tensors, entry.Name)
			return fmt.Errorf("tensor %s: %w", excerpt.Quote(entry.Name), err)
		}
	}
	return f.Finish()
}
