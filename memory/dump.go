package memory

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory/internal/registry"
	"github.com/cistern-ml/cistern/memory/internal/text"
	"github.com/pkg/errors"
)

// WriteJSON writes the snapshot as JSON. PyTorch's memory viewer opens it, and json.Unmarshal reads it. Every entry repeats
// its call stack: for large traces the pickle is much smaller.
func (s Snapshot) WriteJSON(w io.Writer) error {
	if why := isnil.Why("writer", w); why != "" {
		return argumentErr("Snapshot.WriteJSON", "%s", why)
	}
	d := newJSONDocument(w)
	s.write(d)
	return errors.Wrap(d.close(), "memory: writing a snapshot as JSON")
}

// MarshalJSON is WriteJSON for package encoding/json.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := s.WriteJSON(&b)
	return b.Bytes(), err
}

// WritePickle writes the snapshot as a Python pickle, such as torch.cuda.memory._dump_snapshot makes. Each call stack is
// in it once.
func (s Snapshot) WritePickle(w io.Writer) error {
	if why := isnil.Why("writer", w); why != "" {
		return argumentErr("Snapshot.WritePickle", "%s", why)
	}
	d := newPickleDocument(w)
	s.write(d)
	return errors.Wrap(d.close(), "memory: writing a snapshot as a pickle")
}

// SnapshotFormat is a form of a snapshot in a file; the value is also the ending of the file's name.
type SnapshotFormat string

// The formats.
const (
	FormatJSON   SnapshotFormat = ".json"
	FormatPickle SnapshotFormat = ".pickle"
	FormatHTML   SnapshotFormat = ".html" // a page that draws it
)

// Write writes the snapshot in a format.
func (s Snapshot) Write(w io.Writer, format SnapshotFormat) error {
	switch format {
	case FormatJSON:
		return s.WriteJSON(w)
	case FormatPickle:
		return s.WritePickle(w)
	case FormatHTML:
		return s.WriteHTML(w)
	}
	return argumentErr("Snapshot.Write", "snapshot format %q: want %s, %s or %s", excerpt.Of(string(format)), FormatPickle, FormatJSON, FormatHTML)
}

// WriteSnapshot writes a snapshot of a device's allocator, with its pinned host memory if the history of that is recorded. It
// fails if the device has no allocator yet, or one without snapshots.
func WriteSnapshot(w io.Writer, dev device.Device, format SnapshotFormat) error {
	s, err := snapshotOf("WriteSnapshot", dev)
	if err != nil {
		return err
	}
	return s.Write(w, format)
}

// snapshotOf takes the snapshot of a device's allocators for call.
func snapshotOf(call string, dev device.Device) (s Snapshot, err error) {
	if text.NoDevice(dev) {
		return s, argumentErr(call, text.NilDevice)
	}
	a, ok := lookup(dev).(interface{ Snapshot() Snapshot })
	if !ok {
		return s, argumentErr(call, "no snapshot of %s: it has no caching allocator", dev.ID())
	}
	s = a.Snapshot()
	if p, ok := registry.PinnedOf.Lookup(dev); ok {
		if p, ok := p.(interface{ AddTo(*Snapshot) }); ok {
			p.AddTo(&s)
		}
	}
	return s, nil
}

// DumpSnapshot writes a snapshot of a device's allocator into a file, in the format that the ending of its name says: .pickle,
// .json, or .html for a page that any browser draws, without network. A file that cannot be written completely is removed.
func DumpSnapshot(dev device.Device, filename string) (err error) {
	format := SnapshotFormat(filepath.Ext(filename))
	if format != FormatJSON && format != FormatPickle && format != FormatHTML {
		return argumentErr("DumpSnapshot", "snapshot file %s: the name must end in %s, %s or %s", excerpt.Long(filename), FormatPickle, FormatJSON, FormatHTML)
	}
	s, err := snapshotOf("DumpSnapshot", dev) // before a file that may be there is lost
	if err != nil {
		return err
	}
	f, err := os.Create(filename)
	if err != nil {
		return errors.Wrap(excerpt.File(err), "memory: DumpSnapshot")
	}
	if err = s.Write(f, format); err != nil {
		_ = f.Close()
	} else {
		err = errors.Wrap(f.Close(), "memory: DumpSnapshot")
	}
	if err != nil {
		_ = os.Remove(filename)
	}
	return err
}
