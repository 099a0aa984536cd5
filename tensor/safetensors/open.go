package safetensors

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cistern-ml/cistern/internal/isnil"
	format "github.com/cistern-ml/cistern/internal/safetensors"
)

// The names that a model has in a folder, as Hugging Face's programs call them.
const (
	singleName  = "model.safetensors"
	indexName   = "model.safetensors.index.json"
	indexSuffix = ".index.json"
)

// OpenOption changes what Open and NewFile do.
type OpenOption func(*File)

// Unverified leaves the checksum of files that have one alone, so that reading a few tensors of a large file reads these and nothing else.
func Unverified() OpenOption { return func(f *File) { f.unverified = true } }

// Open opens a file, and reads its header alone. A path that ends in ".index.json" is the index of a model in shards, all of which are
// opened; of a folder it is the file model.safetensors in it, or else the index model.safetensors.index.json. Where the system can map
// files into memory they are: then the file must not be changed in place while it is open; replacing it, as WriteFile does, is fine.
//
// Its errors are a *FileError and a *FormatError.
func Open(path string, opts ...OpenOption) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &FileError{"open", path, err}
	}
	if info.IsDir() {
		if path, err = modelIn(path); err != nil {
			return nil, err
		}
	}
	if strings.HasSuffix(path, indexSuffix) {
		return openIndex(path, opts)
	}
	p, err := openPart(path)
	if err != nil {
		return nil, err
	}
	f := newFile(path, []*part{p}, opts)
	for i := range p.header.Entries {
		f.add(p, &p.header.Entries[i])
	}
	return f, nil
}

// NewFile opens a file of size bytes that r reads, and reads its header alone. r must read the same bytes at all times; File.Close does
// not close it. Its errors are a *FormatError, a *FileError of r's errors, and an *ArgumentError.
func NewFile(r io.ReaderAt, size int64, opts ...OpenOption) (*File, error) {
	if why := isnil.Why("reader", r); why != "" {
		return nil, argumentErr("NewFile", "%s", why)
	}
	if size < 0 {
		return nil, argumentErr("NewFile", "a size of %d bytes", size)
	}
	name := ""
	if n, ok := r.(interface{ Name() string }); ok {
		name = n.Name()
	}
	p, err := newPart(name, r, size, func() error { return nil })
	if err != nil {
		return nil, err
	}
	f := newFile(name, []*part{p}, opts)
	for i := range p.header.Entries {
		f.add(p, &p.header.Entries[i])
	}
	return f, nil
}

// modelIn is the model in a folder.
func modelIn(folder string) (string, error) {
	for _, name := range []string{singleName, indexName} {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", &FileError{"open", path, err}
		}
	}
	return "", &FileError{"open", folder, errors.New("there is neither " + singleName + " nor " + indexName + " in it")}
}

func newFile(name string, parts []*part, opts []OpenOption) *File {
	f := &File{name: name, parts: parts, places: map[string]place{}, metadata: map[string]string{}}
	for _, p := range parts {
		for key, text := range p.header.Metadata {
			if _, there := f.metadata[key]; !there {
				f.metadata[key] = text
			}
		}
	}
	for _, o := range opts {
		if o != nil {
			o(f)
		}
	}
	return f
}

func (f *File) add(p *part, e *format.Entry) {
	at := place{p, e}
	f.places[e.Name] = at
	f.infos = append(f.infos, at.info())
}

// openPart opens one file.
func openPart(path string) (p *part, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &FileError{"open", path, err}
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, errors.Join(&FileError{"open", path, err}, file.Close())
	}
	in, end := readerOf(file, info.Size())
	if p, err = newPart(path, in, info.Size(), end); err != nil {
		return nil, errors.Join(err, end())
	}
	return p, nil
}

// newPart reads a header, and refuses a file that is not as long as that says.
func newPart(name string, in io.ReaderAt, size int64, end func() error) (*part, error) {
	h, err := format.ReadHeader(io.NewSectionReader(in, 0, size))
	if err != nil {
		return nil, located(name, "", err)
	}
	if h.Len() != size {
		return nil, located(name, "", format.WrongLength(h.Len(), size))
	}
	return &part{name: name, in: in, size: size, close: end, header: h}, nil
}
