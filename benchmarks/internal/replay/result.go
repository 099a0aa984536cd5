package replay

import (
	"encoding/json"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// Result is what a replay found. Its JSON has the keys of the recorded figures of PyTorch's allocator.
type Result struct {
	ID        device.ID    `json:"-"`
	Events    int          `json:"events"`
	Allocs    int          `json:"allocs"`
	Frees     int          `json:"frees"`
	Records   int          `json:"record_streams"`
	Requested Peaked       `json:"requested_bytes"`
	LivePeak  int          `json:"live_peak"`
	Stats     memory.Stats `json:"stats"`
	Driver    Driver       `json:"driver"`
	Hash      Hashes       `json:"hash"`
	Final     Final        `json:"final"`
	OOMs      [][3]int64   `json:"ooms"` // event, id, bytes
	Series    []Sample     `json:"-"`
	Marks     []Sample     `json:"-"`

	PeakFragmentation float64 `json:"peak_fragmentation"` // peak reserved / peak allocated
	NsPerPair         float64 `json:"ns_per_pair,omitempty"`
}

// Peaked is a figure with its highest value.
type Peaked struct {
	Current int64 `json:"current"`
	Peak    int64 `json:"peak"`
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
func driverCounts(c sim.Calls, granPeak uint64) Driver {
	done := func(k sim.CallKind) uint64 { return c.Count[k] - c.Failed[k] }
	return Driver{
		Malloc: c.Count[sim.CallMalloc], MallocFailed: c.Failed[sim.CallMalloc], Free: done(sim.CallFree),
		BytesNow: c.BytesNow, BytesPeak: c.BytesPeak, BytesPeakGranules: granPeak,
		EventCreate: done(sim.CallEventCreate), EventRecord: done(sim.CallEventRecord), EventQuery: done(sim.CallEventQuery),
		EventQueryNotReady: c.EventQueryNotReady, EventSync: done(sim.CallEventSync),
		AddressReserve: done(sim.CallReserve), PageCreate: c.Count[sim.CallPageCreate], PageCreateFailed: c.Failed[sim.CallPageCreate],
		PageRelease: done(sim.CallPageRelease), PageMap: done(sim.CallPageMap), PageUnmap: done(sim.CallPageUnmap),
	}
}

// Sample is the state at one moment.
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

// MarshalJSON writes series and marks as rows under their columns.
func (r *Result) MarshalJSON() ([]byte, error) {
	type plain Result
	names := []string{"event", "allocated", "reserved", "active", "inactive_split", "placement_hash_so_far"}
	out := struct {
		*plain
		SeriesColumns []string `json:"series_columns"`
		Series        [][]any  `json:"series"`
		MarksColumns  []string `json:"marks_columns"`
		Marks         [][]any  `json:"marks"`
	}{plain: (*plain)(r), SeriesColumns: names, MarksColumns: append([]string{"label"}, names...), Series: [][]any{}, Marks: [][]any{}}
	if out.OOMs == nil {
		out.OOMs = [][3]int64{}
	}
	if p := r.Stats.AllocatedBytes.All.Peak; p > 0 {
		out.PeakFragmentation = float64(r.Stats.ReservedBytes.All.Peak) / float64(p)
	}
	for _, s := range r.Series {
		out.Series = append(out.Series, s.columns())
	}
	for _, s := range r.Marks {
		out.Marks = append(out.Marks, append([]any{s.Label}, s.columns()...))
	}
	return json.Marshal(out)
}
