package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

// Result is what a replay found. Its JSON has the keys of the recorded numbers of PyTorch's allocator.
type Result struct {
	ID        device.ID    `json:"-"`
	Allocator string       `json:"allocator"`
	Trace     string       `json:"trace"` // file name
	Config    Config       `json:"config"`
	Events    int          `json:"events"`
	Allocs    int          `json:"allocs"`
	Frees     int          `json:"frees"`
	Records   int          `json:"record_streams"`
	Requested Peaked       `json:"requested_bytes"` // bytes as asked for
	LivePeak  int          `json:"live_peak"`       // blocks
	Stats     memory.Stats `json:"stats"`
	Driver    Driver       `json:"driver"`
	Hash      Hashes       `json:"hash"`
	Final     Final        `json:"final"`
	OOMs      [][3]uint64  `json:"ooms"` // number of the event, counted from 1, id, bytes
	Series    []Sample     `json:"-"`    // after each 1,000 events
	Marks     []Sample     `json:"-"`    // at each mark and at the end

	Steady *Steady `json:"steady,omitempty"` // nil for traces with fewer marks

	PeakFragmentation float64 `json:"peak_fragmentation"` // peak reserved / peak allocated
	NsPerPair         float64 `json:"ns_per_pair"`        // as Time returns it; 0 if it was not asked
}

// Config says under which settings a replay ran.
type Config struct {
	Name      string   `json:"name"`
	AllocConf string   `json:"alloc_conf"` // as memory.ParseConfig reads it
	Capacity  uint64   `json:"capacity"`   // bytes
	Fraction  *float64 `json:"memory_fraction"`
}

// Peaked is a number with its highest value.
type Peaked struct {
	Current uint64 `json:"current"`
	Peak    uint64 `json:"peak"`
}

// Hashes are FNV-1a 64 over every placement, over every driver call, and over the map of the memory at the end.
type Hashes struct {
	Placement     string `json:"placement"`
	Driver        string `json:"driver"`
	FinalSegments string `json:"final_segments"`
}

// Final counts what is reserved at the end.
type Final struct {
	Segments int `json:"segments"`
	Blocks   int `json:"blocks"`
}

// Driver counts calls of the device, under the names of the CUDA calls that they stand for.
type Driver struct {
	Malloc             uint64 `json:"cudaMalloc"`
	MallocFailed       uint64 `json:"cudaMalloc_failed"`
	Free               uint64 `json:"cudaFree"`
	BytesNow           uint64 `json:"bytes_now"`
	BytesPeak          uint64 `json:"bytes_peak"`
	BytesPeakGranules  uint64 `json:"bytes_peak_2mib_granules"`
	EventCreate        uint64 `json:"event_create"`
	EventRecord        uint64 `json:"event_record"`
	EventQuery         uint64 `json:"event_query"`
	EventQueryNotReady uint64 `json:"event_query_notready"`
	EventSync          uint64 `json:"event_sync"`
	AddressReserve     uint64 `json:"cuMemAddressReserve"`
	PageCreate         uint64 `json:"cuMemCreate"`
	PageCreateFailed   uint64 `json:"cuMemCreate_failed"`
	PageRelease        uint64 `json:"cuMemRelease"`
	PageMap            uint64 `json:"cuMemMap"`
	PageUnmap          uint64 `json:"cuMemUnmap"`
}

// driverCounts reads the counts as they were recorded: of allocations and pages, failed calls are part of the number.
func driverCounts(c sim.Calls, granulesPeak uint64) Driver {
	done := func(k sim.CallKind) uint64 { return c.Count[k] - c.Failed[k] }
	return Driver{
		Malloc: c.Count[sim.CallMalloc], MallocFailed: c.Failed[sim.CallMalloc], Free: done(sim.CallFree),
		BytesNow: c.BytesNow, BytesPeak: c.BytesPeak, BytesPeakGranules: granulesPeak,
		EventCreate: done(sim.CallEventCreate), EventRecord: done(sim.CallEventRecord), EventQuery: done(sim.CallEventQuery),
		EventQueryNotReady: c.EventQueryNotReady, EventSync: done(sim.CallEventSync),
		AddressReserve: done(sim.CallReserve), PageCreate: c.Count[sim.CallPageCreate], PageCreateFailed: c.Failed[sim.CallPageCreate],
		PageRelease: done(sim.CallPageRelease), PageMap: done(sim.CallPageMap), PageUnmap: done(sim.CallPageUnmap),
	}
}

// Sample is the state at one moment. Numbers are bytes.
type Sample struct {
	Label         string // of a mark
	Event         int    // how many events came before
	Allocated     int64
	Reserved      int64
	Active        int64
	InactiveSplit int64
	Hash          string // of the placements so far
}

func (s Sample) columns() []any {
	return []any{s.Event, s.Allocated, s.Reserved, s.Active, s.InactiveSplit, s.Hash}
}

// newResult is the result of a replay before its first event.
func newResult(t *trace.Trace, o Options) *Result {
	name := "Cistern memory.Caching"
	if o.Direct {
		name = "Cistern memory.Direct"
	}
	fraction := o.Config.MemoryFraction
	if o.Fraction != nil {
		fraction = o.Fraction
	}
	return &Result{
		Allocator: name, Trace: filepath.Base(t.Name), Allocs: t.Allocs,
		Config: Config{AllocConf: o.Config.String(), Capacity: o.Capacity, Fraction: fraction},
	}
}

// MarshalJSON writes series and marks as rows under their columns.
func (r *Result) MarshalJSON() ([]byte, error) {
	type plain Result
	names := []string{"event", "allocated", "reserved", "active", "inactive_split", "placement_hash_so_far"}
	out := struct {
		plain
		SeriesColumns []string `json:"series_columns"`
		Series        [][]any  `json:"series"`
		MarksColumns  []string `json:"marks_columns"`
		Marks         [][]any  `json:"marks"`
	}{plain: plain(*r), SeriesColumns: names, MarksColumns: append([]string{"label"}, names...), Series: [][]any{}, Marks: [][]any{}}
	if out.OOMs == nil {
		out.OOMs = [][3]uint64{}
	}
	for _, s := range r.Series {
		out.Series = append(out.Series, s.columns())
	}
	for _, s := range r.Marks {
		out.Marks = append(out.Marks, append([]any{s.Label}, s.columns()...))
	}
	return json.Marshal(out)
}

// finalSegments counts and hashes the map of the memory at the end, in the order of the segments' numbers: on a simulated
// device, where addresses rise, that is the order of addresses. An allocator without a cache has no map: its segments are
// the blocks in use.
func (p *player) finalSegments() (Final, string) {
	h := fnv.New64a()
	a, ok := p.alloc.(*memory.Caching)
	if !ok {
		return Final{Segments: p.live, Blocks: p.live}, hex(h)
	}
	segments := a.Snapshot().Segments
	slices.SortFunc(segments, func(x, y memory.SegmentInfo) int {
		nx, ox := p.machine.segment(x.Address)
		ny, oy := p.machine.segment(y.Address)
		return cmp.Or(cmp.Compare(nx, ny), cmp.Compare(ox, oy))
	})
	f := Final{Segments: len(segments)}
	for _, s := range segments {
		number, offset := p.machine.segment(s.Address)
		fmt.Fprintf(h, "S %d %d %d %d %s\n", number, offset, s.TotalSize, s.Stream, s.Type)
		for _, b := range s.Blocks {
			f.Blocks++
			fmt.Fprintf(h, "B %d %d %d\n", b.Size, bit(b.State == memory.ActiveAllocated), bit(b.State != memory.Inactive))
		}
	}
	return f, hex(h)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
