package safetensors

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/internal/excerpt"
	format "github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// Info is what a file says of one of its tensors.
type Info struct {
	Name  string
	Type  string       // of the elements, as the format calls it: "F32", "BF16", "I64", ...
	DType tensor.DType // the same, 0 for a type that package tensor has not
	Shape tensor.Shape
	Bytes int64  // of its data
	File  string // that it is in; empty for one that has no name
}

// File is an open file, or all the files of a model in shards. It may be used by several goroutines at the same time. Close gives it back.
type File struct {
	name       string
	parts      []*part
	infos      []Info
	places     map[string]place
	metadata   map[string]string
	unverified bool

	closing sync.RWMutex // held for reading while a part is read
	closed  bool
}

// part is one file.
type part struct {
	name   string
	in     io.ReaderAt
	size   int64
	close  func() error
	header *format.Header

	verifying sync.Mutex
	verified  bool
	wrong     error // what verifying found
}

// place is where a tensor is.
type place struct {
	part  *part
	entry *format.Entry
}

// Name is the path that Open was given, or the reader's Name, empty if it has none.
func (f *File) Name() string {
	if f == nil {
		return ""
	}
	return f.name
}

// Tensors lists the tensors in the order of their data, those of shards in the order of the shards.
func (f *File) Tensors() []Info {
	if f == nil {
		return nil
	}
	infos := slices.Clone(f.infos)
	for i := range infos {
		infos[i].Shape = infos[i].Shape.Clone()
	}
	return infos
}

// Info is what there is to know of the tensor of a name, and whether there is one.
func (f *File) Info(name string) (Info, bool) {
	if f == nil {
		return Info{}, false
	}
	p, ok := f.places[name]
	if !ok {
		return Info{}, false
	}
	return p.info(), true
}

func (p place) info() Info {
	e := p.entry
	return Info{e.Name, e.Type, e.DType, slices.Clone(e.Shape), e.Bytes, p.part.name}
}

// Metadata is the texts that the file has beside its tensors, without the checksum. Of shards it is what all of them have, and where they
// differ what the first of them says.
func (f *File) Metadata() map[string]string {
	if f == nil {
		return nil
	}
	return maps.Clone(f.metadata)
}

// Close closes the file, after what others read of it at the time. Closing it again does nothing.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	f.closing.Lock()
	defer f.closing.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	return closeAll(f.parts)
}

func closeAll(parts []*part) error {
	var all []error
	for _, p := range parts {
		if err := p.close(); err != nil {
			all = append(all, &FileError{"close", p.name, err})
		}
	}
	return errors.Join(all...)
}

// use is the place of a tensor, of a file that stays open until done is called.
func (f *File) use(call, name string) (p place, done func(), err error) {
	if f == nil {
		return p, nil, argumentErr(call, "the File is nil")
	}
	f.closing.RLock()
	switch p, ok := f.places[name]; {
	case f.closed || f.places == nil:
		err = ErrClosed
	case !ok:
		err = &NameError{f.name, name, "there is none of this name"}
	case p.entry.DType == 0:
		err = &TypeError{p.part.name, name, p.entry.Type}
	default:
		return p, f.closing.RUnlock, nil
	}
	f.closing.RUnlock()
	return p, nil, err
}

// String is the file's name and how many tensors it has.
func (f *File) String() string {
	if f == nil {
		return "safetensors.File(nil)"
	}
	return fmt.Sprintf("safetensors.File(%s, %d tensors)", excerpt.Quote(f.name), len(f.infos))
}
