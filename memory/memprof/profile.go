package memprof

import (
	"cmp"
	"compress/gzip"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
	"github.com/google/pprof/profile"
	"github.com/pkg/errors"
)

// sampleTypes are the values of a profile, as go tool pprof -sample_index chooses them. The bytes of the second and fourth add
// up to what the allocator has reserved. A profile keeps notes in them when it is written, so each has its own.
func sampleTypes() []*profile.ValueType {
	return []*profile.ValueType{
		{Type: "inuse_objects", Unit: "count"},   // active blocks: held by callers, or freed and waiting for other streams
		{Type: "inuse_space", Unit: "bytes"},     // their sizes
		{Type: "requested_space", Unit: "bytes"}, // what was asked for
		{Type: "cached_space", Unit: "bytes"},    // free memory in segments, by who caused the segment to be got from the driver
	}
}

const (
	inuseObjects = iota
	inuseSpace
	requestedSpace
	cachedSpace
	numSampleTypes
)

// unknownPlace stands for what was allocated while no history was recorded.
var unknownPlace = []memory.Frame{{Name: "(allocated before RecordHistory)"}}

// Snapshotter is an allocator that WriteProfile can look into: memory.Caching, and memory.Pool for its part.
type Snapshotter interface {
	Snapshot() memory.Snapshot
}

// WriteProfile writes what a device's memory is used for now, by Go call stack, in the gzipped format of pprof. It fails if
// the device has no caching allocator.
func WriteProfile(w io.Writer, dev device.Device) error {
	if isnil.Value(dev) || dev.ID().Kind == 0 {
		return &memory.ArgumentError{Call: "WriteProfile", Detail: "the device is nil or a zero value"}
	}
	for _, a := range memory.Allocators() {
		if s, ok := a.(Snapshotter); ok && a.Device() == dev.ID() {
			return Encode(w, s.Snapshot())
		}
	}
	return &memory.ArgumentError{Call: "WriteProfile", Detail: dev.ID().String() + " has no caching allocator"}
}

// Encode writes the profile of a snapshot. Samples have the labels state (active_allocated or active_pending_free), pool (small
// or large), stream, and pool_id for private pools; and op and module where an operation of a graph or an optimizer has allocated the memory. The
// operation is also the innermost function of the stack, so that the flat numbers of -top are those of operations; -tags, -tagfocus and
// -tagroot=module show modules, and -list the program's lines.
func Encode(w io.Writer, s memory.Snapshot) error {
	if why := isnil.Why("writer", w); why != "" {
		return &memory.ArgumentError{Call: "memprof.Encode", Detail: why}
	}
	return errors.Wrap(pack(w, newProfile(s, time.Now())), "memprof: writing a profile")
}

// pack is p.Write(w), which does not tell what went wrong when the last of the packed bytes were written.
func pack(w io.Writer, p *profile.Profile) error {
	zipped := gzip.NewWriter(w)
	if err := p.WriteUncompressed(zipped); err != nil {
		return err
	}
	return zipped.Close()
}

// sample is a row of the profile: all blocks with the same stack and labels.
type sample struct {
	frames []memory.Frame
	labels labels
	values [numSampleTypes]int64
}

type labels struct {
	state, pool, poolID string
	stream              int64
	by                  memory.Operation
}

// sampleKey tells rows apart. Stacks of one snapshot share their memory, so that the first frame's address stands for them.
type sampleKey struct {
	stack  *memory.Frame
	labels labels
}

func newProfile(s memory.Snapshot, now time.Time) *profile.Profile {
	rows := map[sampleKey]*sample{}
	row := func(frames []memory.Frame, l labels) *sample {
		if len(frames) == 0 {
			frames = unknownPlace
		}
		key := sampleKey{&frames[0], l}
		if rows[key] == nil {
			rows[key] = &sample{frames: frames, labels: l}
		}
		return rows[key]
	}
	for _, seg := range s.Segments {
		l := labels{pool: seg.Type, stream: int64(seg.Stream)}
		if seg.PoolID != [2]uint64{} {
			l.poolID = strconv.FormatUint(seg.PoolID[0], 10) + "_" + strconv.FormatUint(seg.PoolID[1], 10)
		}
		l.by = seg.By
		if cached := seg.TotalSize - seg.ActiveSize; cached > 0 {
			row(seg.Frames, l).values[cachedSpace] += int64(cached)
		}
		for _, b := range seg.Blocks {
			if b.State == memory.Inactive {
				continue
			}
			l.state, l.by = string(b.State), b.By
			values := &row(b.Frames, l).values
			values[inuseObjects]++
			values[inuseSpace] += int64(b.Size)
			values[requestedSpace] += int64(b.RequestedSize)
		}
	}
	e := newEncoder(now)
	for _, r := range sorted(rows) {
		e.add(r)
	}
	return e.p
}

// sorted puts the largest first, and otherwise makes the order depend on nothing but the content.
func sorted(rows map[sampleKey]*sample) []*sample {
	list := make([]*sample, 0, len(rows))
	for _, r := range rows {
		list = append(list, r)
	}
	slices.SortFunc(list, func(x, y *sample) int {
		return cmp.Or(
			cmp.Compare(y.values[inuseSpace]+y.values[cachedSpace], x.values[inuseSpace]+x.values[cachedSpace]),
			slices.CompareFunc(x.frames, y.frames, compareFrames),
			cmp.Compare(x.labels.state, y.labels.state), cmp.Compare(x.labels.pool, y.labels.pool),
			cmp.Compare(x.labels.poolID, y.labels.poolID), cmp.Compare(x.labels.stream, y.labels.stream),
			cmp.Compare(x.labels.by.Name, y.labels.by.Name), cmp.Compare(x.labels.by.Module, y.labels.by.Module))
	})
	return list
}

func compareFrames(x, y memory.Frame) int {
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Filename, y.Filename), cmp.Compare(x.Line, y.Line))
}

// programName is what the profile is of.
func programName() string {
	name, err := os.Executable()
	if err != nil {
		return "program"
	}
	return name
}
