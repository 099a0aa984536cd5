package memory

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/userframe"
	"github.com/cistern-ml/cistern/memory/internal/viewer"
)

// Drawing is a snapshot as the pages draw it (viewer.html): call stacks once, rows of numbers instead of objects, the unmapped parts of
// expandable segments, and neighbours that are too small to be seen added up.
type drawing struct {
	Device     string            `json:"device"`
	TimeUS     int64             `json:"time_us"` // when it was written, since 1970
	Frames     []Frame           `json:"frames"`
	Stacks     [][]int           `json:"stacks"`     // of indices of frames, innermost first; the first stack is the empty one
	Places     []int             `json:"places"`     // of each stack the frame that is a line of the program, -1 if none is
	Operations []string          `json:"operations"` // that each stack was taken in, "" for none
	Segments   []drawnSegment    `json:"segments"`
	Host       []drawnSegment    `json:"host_segments"`
	Sites      []drawnSite       `json:"sites"`      // the call stacks that hold the most
	MoreSites  drawnSite         `json:"more_sites"` // the others together; Stack is how many they are
	Trace      *drawnTrace       `json:"trace,omitempty"`
	Settings   map[string]string `json:"settings"`
	Dropped    int64             `json:"dropped_entries"`
	AddedUp    int               `json:"added_up"` // blocks that are not drawn on their own
	Allocated  uint64            `json:"allocated_bytes"`
	Pending    uint64            `json:"pending_bytes"`
	Cached     uint64            `json:"cached_bytes"`
	Requested  uint64            `json:"requested_bytes"` // of allocated and pending blocks
	Blocks     int               `json:"blocks"`          // in use or cached
	LargestGap uint64            `json:"largest_cached_bytes"`
}

// drawnSegment has its blocks as rows of pieceNumbers numbers.
type drawnSegment struct {
	Address    uint64  `json:"address"`
	Size       uint64  `json:"size"` // a range of addresses, of an expandable segment
	Stream     uint64  `json:"stream"`
	Type       string  `json:"type"`
	Pool       string  `json:"pool"` // "" for the default pools
	Expandable bool    `json:"expandable"`
	Stack      int     `json:"stack"`
	Pieces     []int64 `json:"pieces"`
}

// drawnPiece is a block, or several neighbours. What is neither allocated, pending nor unmapped is cached.
type drawnPiece struct {
	size, count, allocated, pending, unmapped, requested int64
	stack                                                int
	generation                                           uint64
}

func (p *drawnPiece) numbers() []int64 {
	return []int64{p.size, p.count, p.allocated, p.pending, p.unmapped, p.requested, int64(p.stack), int64(p.generation)}
}

// drawnSite is what a call stack holds, with what waits to be given back: the latter is in Pending as well.
type drawnSite struct {
	Stack         int    `json:"stack"`
	Blocks        int    `json:"blocks"`
	Bytes         uint64 `json:"bytes"`
	Requested     uint64 `json:"requested"`
	PendingBlocks int    `json:"pending_blocks"`
	Pending       uint64 `json:"pending"`
}

func (s *drawnSite) add(o *drawnSite) {
	s.Blocks, s.Bytes, s.Requested = s.Blocks+o.Blocks, s.Bytes+o.Bytes, s.Requested+o.Requested
	s.PendingBlocks, s.Pending = s.PendingBlocks+o.PendingBlocks, s.Pending+o.Pending
}

// drawnTrace has a column for each part of an entry.
type drawnTrace struct {
	Actions []Action `json:"actions"` // what the numbers in Action mean
	StartUS int64    `json:"start_us"`
	Pools   []string `json:"pools"`
	Action  []int    `json:"action"`
	Addr    []uint64 `json:"addr"` // of ActionOOM what the driver had free
	Size    []uint64 `json:"size"`
	Stream  []uint64 `json:"stream"`
	Time    []int64  `json:"time"` // microseconds since StartUS
	Stack   []int    `json:"stack"`
	Pool    []int    `json:"pool"`
}

const (
	maxDrawnSites = 200
	maxFileBlocks = 200_000 // in a file: far more than a screen shows
)

// WriteHTML writes the snapshot as a page that any browser draws, without network: the memory over time if history was recorded, the
// segments and their blocks, and who holds how much. Each call stack is in it once.
func (s Snapshot) WriteHTML(w io.Writer) error {
	if why := isnil.Why("writer", w); why != "" {
		return argumentErr("Snapshot.WriteHTML", "%s", why)
	}
	err := viewer.Write(w, func(w io.Writer) error { return s.draw(maxFileBlocks, w) })
	return errors.Wrap(err, "memory: writing a snapshot as a page")
}

// WriteDrawing writes the snapshot as package memprof's page draws it, in JSON whose form may change: where there are more blocks than
// most, 0 is no limit, those too small to be seen are added up with their neighbours. The sums stay what they are.
func (s Snapshot) WriteDrawing(w io.Writer, most int) error {
	if why := isnil.Why("writer", w); why != "" {
		return argumentErr("Snapshot.WriteDrawing", "%s", why)
	}
	if most < 0 {
		return argumentErr("Snapshot.WriteDrawing", "most=%d: want 0 or more blocks", most)
	}
	return errors.Wrap(s.draw(most, w), "memory: writing a snapshot for drawing")
}

// draw writes the JSON. Texts that could end a script are escaped by package json.
func (s *Snapshot) draw(most int, w io.Writer) error {
	p := &painter{frames: map[Frame]int{}, stacks: map[*Frame]int{}, sites: map[int]*drawnSite{}}
	p.d = drawing{Device: s.device.String(), TimeUS: time.Now().UnixMicro(), Frames: []Frame{}, Stacks: [][]int{{}}, Places: []int{-1}, Operations: []string{""},
		Dropped: s.DroppedEntries, Segments: []drawnSegment{}, Host: []drawnSegment{}, Sites: []drawnSite{}, Settings: s.Settings.texts()}
	segments := s.painted()
	p.choosePixel(segments, most)
	for i := range segments {
		p.d.Segments = append(p.d.Segments, p.segment(&segments[i]))
	}
	p.sum(segments)
	for i := range s.HostSegments {
		host := paintedOf(&s.HostSegments[i])
		p.d.Host = append(p.d.Host, p.segment(&host))
	}
	for _, trace := range s.DeviceTraces {
		if len(trace) > 0 {
			p.d.Trace = p.trace(trace)
		}
	}
	return json.NewEncoder(w).Encode(&p.d)
}

// paintedSegment is a segment with its unmapped parts, which SegmentInfo does not have.
type paintedSegment struct {
	info   SegmentInfo // without blocks
	blocks []paintedBlock
}

type paintedBlock struct {
	BlockInfo
	unmapped   bool
	generation uint64
}

// painted returns the segments: as the allocator has them, or, of a snapshot that was read from JSON, as that has them.
func (s *Snapshot) painted() (list []paintedSegment) {
	if s.layout == nil {
		for i := range s.Segments {
			list = append(list, paintedOf(&s.Segments[i]))
		}
		return list
	}
	layout := slices.SortedFunc(slices.Values(s.layout), func(x, y segmentLayout) int { return cmp.Compare(x.ptr, y.ptr) })
	next := s.Segments // both are by address: what is mapped of the one is, block for block, the other
	list = make([]paintedSegment, 0, len(layout))
	for i := range layout {
		var seg paintedSegment
		seg, next = layout[i].painted(next)
		list = append(list, seg)
	}
	return list
}

// painted takes the runs of mapped blocks of a segment from infos, and returns those that are left.
func (l *segmentLayout) painted(infos []SegmentInfo) (seg paintedSegment, rest []SegmentInfo) {
	seg = paintedSegment{blocks: make([]paintedBlock, 0, len(l.blocks)), info: SegmentInfo{Address: l.ptr, TotalSize: l.size, Stream: l.stream,
		Type: l.kind.String(), PoolID: l.pool, Expandable: l.expandable}}
	var run []BlockInfo
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.state == stateUnmapped {
			seg.blocks = append(seg.blocks, paintedBlock{BlockInfo: BlockInfo{Address: b.ptr, Size: b.size}, unmapped: true})
			continue
		}
		if len(run) == 0 {
			run, seg.info.Frames, infos = infos[0].Blocks, infos[0].Frames, infos[1:]
		}
		seg.blocks = append(seg.blocks, paintedBlock{BlockInfo: run[0], generation: b.generation})
		run = run[1:]
	}
	return seg, infos
}

func paintedOf(info *SegmentInfo) paintedSegment {
	seg := paintedSegment{info: *info}
	for i := range info.Blocks {
		seg.blocks = append(seg.blocks, paintedBlock{BlockInfo: info.Blocks[i]})
	}
	return seg
}

// painter makes a drawing.
type painter struct {
	d      drawing
	frames map[Frame]int
	stacks map[*Frame]int // by the first frame: blocks from the same place share it
	sites  map[int]*drawnSite
	pixel  uint64 // blocks below this size are added up
}

// choosePixel sees to it that there are most pieces, about.
func (p *painter) choosePixel(segments []paintedSegment, most int) {
	n, bytes := 0, uint64(0)
	for i := range segments {
		n += len(segments[i].blocks)
		for j := range segments[i].blocks {
			if b := &segments[i].blocks[j]; !b.unmapped {
				bytes += b.Size
			}
		}
	}
	if most > 0 && n > most {
		p.pixel = 2 * bytes / uint64(most)
	}
}

func (p *painter) segment(s *paintedSegment) drawnSegment {
	d := drawnSegment{Address: uint64(s.info.Address), Size: s.info.TotalSize, Stream: uint64(s.info.Stream), Type: s.info.Type,
		Pool: poolText(s.info.PoolID), Expandable: s.info.Expandable, Stack: p.stack(s.info.Frames), Pieces: []int64{}}
	var run drawnPiece // of small ones
	flush := func() {
		if run.count > 1 {
			p.d.AddedUp += int(run.count)
		}
		if run.count > 0 {
			d.Pieces = append(d.Pieces, run.numbers()...)
		}
		run = drawnPiece{}
	}
	for i := range s.blocks {
		b := &s.blocks[i]
		if b.Size >= p.pixel || uint64(run.size) >= p.pixel {
			flush()
		}
		run.add(b, p)
		if b.Size >= p.pixel {
			flush()
		}
	}
	flush()
	return d
}

// add adds a block to a piece.
func (r *drawnPiece) add(b *paintedBlock, p *painter) {
	r.size += int64(b.Size)
	r.count++
	switch {
	case b.unmapped:
		r.unmapped += int64(b.Size)
	case b.State == ActiveAllocated:
		r.allocated += int64(b.Size)
	case b.State == ActivePendingFree:
		r.pending += int64(b.Size)
	}
	r.requested += int64(b.RequestedSize)
	r.stack, r.generation = p.stack(b.Frames), b.generation
	if r.count > 1 {
		r.stack, r.generation = 0, 0
	}
}

// sum adds up all blocks, and the sites that hold them.
func (p *painter) sum(segments []paintedSegment) {
	for i := range segments {
		for j := range segments[i].blocks {
			if b := &segments[i].blocks[j]; !b.unmapped {
				p.count(b)
			}
		}
	}
	for _, s := range p.sites {
		p.d.Sites = append(p.d.Sites, *s)
	}
	slices.SortFunc(p.d.Sites, func(x, y drawnSite) int { return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Stack, y.Stack)) })
	for i := maxDrawnSites; i < len(p.d.Sites); i++ {
		p.d.MoreSites.Stack++
		p.d.MoreSites.add(&p.d.Sites[i])
	}
	p.d.Sites = p.d.Sites[:min(len(p.d.Sites), maxDrawnSites)]
}

func (p *painter) count(b *paintedBlock) {
	p.d.Blocks++
	switch b.State {
	case ActiveAllocated:
		p.d.Allocated += b.Size
	case ActivePendingFree:
		p.d.Pending += b.Size
	default:
		p.d.Cached += b.Size
		p.d.LargestGap = max(p.d.LargestGap, b.Size)
		return
	}
	p.d.Requested += b.RequestedSize
	id := p.stack(b.Frames)
	if p.sites[id] == nil {
		p.sites[id] = &drawnSite{Stack: id}
	}
	one := drawnSite{Blocks: 1, Bytes: b.Size, Requested: b.RequestedSize}
	if b.State == ActivePendingFree {
		one.PendingBlocks, one.Pending = 1, b.Size
	}
	p.sites[id].add(&one)
}

// stack returns the index of a call stack.
func (p *painter) stack(frames []Frame) int {
	if len(frames) == 0 {
		return 0
	}
	id, ok := p.stacks[&frames[0]]
	if ok {
		return id
	}
	list := make([]int, len(frames))
	for i, f := range frames {
		n, ok := p.frames[f]
		if !ok {
			n = len(p.d.Frames)
			p.frames[f] = n
			p.d.Frames = append(p.d.Frames, f)
		}
		list[i] = n
	}
	id = len(p.d.Stacks)
	p.stacks[&frames[0]] = id
	p.d.Stacks = append(p.d.Stacks, list)
	operation, place := told(frames)
	if place >= 0 {
		place = list[place]
	}
	p.d.Places, p.d.Operations = append(p.d.Places, place), append(p.d.Operations, operation)
	return id
}

// told returns the operation that a stack was taken in, "" for none, and which of its frames is a line of the program, -1 if none is. The frame that
// stands for an operation has the place of the next one, and a name unlike those of functions, which have a dot behind their package.
func told(frames []Frame) (operation string, place int) {
	first := 0
	if len(frames) > 1 && frames[0].Filename == frames[1].Filename && frames[0].Line == frames[1].Line {
		first = 1
		if name, _, _ := strings.Cut(frames[0].Name, " ("); !strings.Contains(name, ".") {
			operation = frames[0].Name
		}
	}
	for i, f := range frames[first:] {
		if userframe.Program(f.Name, f.Filename) {
			return operation, first + i
		}
	}
	return operation, -1
}

// trace turns the entries into columns.
func (p *painter) trace(entries []TraceEntry) *drawnTrace {
	t := &drawnTrace{StartUS: entries[0].TimeUS}
	actions, pools := map[Action]int{}, map[[2]uint64]int{}
	for i := range entries {
		e := &entries[i]
		if _, ok := actions[e.Action]; !ok {
			actions[e.Action] = len(t.Actions)
			t.Actions = append(t.Actions, e.Action)
		}
		if _, ok := pools[e.PoolID]; !ok {
			pools[e.PoolID] = len(t.Pools)
			t.Pools = append(t.Pools, poolText(e.PoolID))
		}
		addr := uint64(e.Addr)
		if e.Action == ActionOOM {
			addr = e.DeviceFree
		}
		t.Action, t.Pool = append(t.Action, actions[e.Action]), append(t.Pool, pools[e.PoolID])
		t.Addr, t.Size, t.Stream = append(t.Addr, addr), append(t.Size, e.Size), append(t.Stream, uint64(e.Stream))
		t.Time, t.Stack = append(t.Time, e.TimeUS-t.StartUS), append(t.Stack, p.stack(e.Frames))
	}
	return t
}

// poolText names a private pool, "" the default ones.
func poolText(id [2]uint64) string {
	if id == [2]uint64{} {
		return ""
	}
	return strconv.FormatUint(id[0], 10) + "." + strconv.FormatUint(id[1], 10)
}

// texts are the settings in force, for people.
func (s *Settings) texts() map[string]string {
	limit := func(n int64) string {
		if n < 0 {
			return "no limit"
		}
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return map[string]string{
		"settings":                          cmp.Or(s.Conf, "the defaults"),
		"expandable_segments":               strconv.FormatBool(s.ExpandableSegments),
		"max_split_size":                    limit(s.MaxSplitSize),
		"garbage_collection_threshold":      strconv.FormatFloat(s.GCThreshold, 'g', -1, 64),
		"release_lock_on_cudamalloc":        strconv.FormatBool(s.ReleaseLockOnMalloc),
		"graph_capture_record_stream_reuse": strconv.FormatBool(s.ReuseInCapture),
	}
}
