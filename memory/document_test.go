package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
)

// oddSnapshot has a value of each kind, and each size of number and text, that a snapshot can have.
func oddSnapshot() Snapshot {
	place := Frame{Filename: "/src/model.go", Line: 70000, Name: "example.com/größe.(*Net[...]).Forward"}
	long := []Frame{place, {Filename: strings.Repeat("long/", 60) + "\"quoted\"\t<é>.go", Line: 3, Name: "main.main"}}
	s := Snapshot{
		Segments: []SegmentInfo{{
			Device: 1, Address: 0x7f0000000000, TotalSize: 2 * mib, AllocatedSize: 512, ActiveSize: 1024, RequestedSize: 700, Stream: 256,
			Type: "small", PoolID: [2]uint64{0, 1}, Frames: long,
			Blocks: []BlockInfo{
				{Address: 0x7f0000000000, Size: 512, RequestedSize: 500, State: ActiveAllocated, Frames: long},
				{Address: 0x7f0000000200, Size: 512, RequestedSize: 200, State: ActivePendingFree, Frames: long[:1]},
				{Address: 0x7f0000000400, Size: 2*mib - 1024, State: Inactive},
			},
		}, {Device: 1, Address: 0x7fffffffffff, TotalSize: 1 << 31, Type: "large", Expandable: true}},
		DeviceTraces: [][]TraceEntry{{}, {
			{Action: ActionAlloc, Addr: 0x7f0000000000, Size: 500, Stream: 256, TimeUS: 1_700_000_000_000_000, PoolID: [2]uint64{0, 1}, Frames: long},
			{Action: ActionFreeRequested, Addr: 1<<63 + 5, Size: 1<<31 - 1, TimeUS: -1},
			{Action: ActionFreeCompleted, Addr: 1<<55 - 1, Size: 65535, TimeUS: -1 << 40, Frames: []Frame{long[1], place}},
			{Action: ActionOOM, DeviceFree: 255, Size: 1 << 62, InternalMetadata: "mallocWithAddress"},
		}},
		HostSegments: []SegmentInfo{{
			Device: -1, Address: 0xc000000000, TotalSize: 1024, AllocatedSize: 1024, ActiveSize: 1024, RequestedSize: 1000, Type: "small",
			Frames: long, Blocks: []BlockInfo{{Address: 0xc000000000, Size: 1024, RequestedSize: 1000, State: ActiveAllocated, Frames: long}},
		}},
		HostTraces:     []TraceEntry{{Action: ActionSegmentAlloc, Addr: 0xc000000000, Size: 1024, TimeUS: 1, Frames: long}},
		DroppedEntries: 65536, DroppedHostEntries: 3,
	}
	c := Config{GarbageCollectionThreshold: 0.6, MaxSplitBytes: 40 * mib, ExpandableSegments: true}
	c.RoundupDivisions[3] = 8
	s.Settings = c.settings()
	return s
}

// normal takes JSON to the form in which pickles are read, with numbers as text.
func normal(t testing.TB, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return numbersAsText(v)
}

func numbersAsText(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbersAsText(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbersAsText(v[i])
		}
	case *big.Int:
		return v.String()
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		if strings.ContainsAny(v.String(), ".e") {
			f, _ := v.Float64()
			return numbersAsText(f)
		}
		return v.String()
	}
	return v
}

func pickled(t testing.TB, s Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.WritePickle(&b))
	return b.Bytes()
}

func asJSON(t testing.TB, s Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.WriteJSON(&b))
	return b.Bytes()
}

// requireSameInBoth fails unless pickle and JSON say the same, and returns it.
func requireSameInBoth(t testing.TB, s Snapshot) any {
	t.Helper()
	fromPickle, err := readPickle(pickled(t, s))
	require.NoError(t, err)
	fromJSON := normal(t, asJSON(t, s))
	require.Equal(t, fromJSON, numbersAsText(fromPickle))
	return fromJSON
}

// The file testdata/snapshot.json is what Python reads from testdata/snapshot.pickle: see testdata/snapshot.py.
func TestWritePickle_IsTheGoldenFile(t *testing.T) {
	const file = "testdata/snapshot.pickle"
	got := pickled(t, oddSnapshot())
	if *rewrite {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestWritePickle_SaysToPythonWhatTheJSONSays(t *testing.T) {
	python, err := os.ReadFile("testdata/snapshot.json")
	require.NoError(t, err)
	require.Equal(t, normal(t, python), requireSameInBoth(t, oddSnapshot()))
}

func TestSnapshot_OfRandomWorkIsTheSameInBothForms(t *testing.T) {
	r := newRig(t, 96*mib, "")
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	randomWork(r, rand.New(rand.NewPCG(5, 6)), 3000)
	s := r.a.Snapshot()
	require.Greater(t, len(s.DeviceTraces[s.device.Index]), 2000, "more than goes into one batch")
	requireSameInBoth(t, s)

	var back Snapshot
	require.NoError(t, json.Unmarshal(asJSON(t, s), &back))
	direct, err := json.Marshal(s)
	require.NoError(t, err)
	require.Equal(t, normal(t, asJSON(t, s)), normal(t, direct))
	require.Equal(t, len(s.Segments), len(back.Segments))
	require.Equal(t, newUndoState(s), newUndoState(back))
	require.Equal(t, s.Settings, back.Settings)
}

func TestWritePickle_NamesALotOfFrames(t *testing.T) {
	var s Snapshot
	for i := range 700 {
		s.Segments = append(s.Segments, SegmentInfo{Frames: []Frame{{Line: i, Name: "f"}, {Line: i % 30, Name: "g"}}})
	}
	s.Segments = append(s.Segments, s.Segments...)
	requireSameInBoth(t, s)
}

// PyTorch's viewer does not open a file in which something of this is missing.
func TestSnapshot_HasWhatTheViewerNeeds(t *testing.T) {
	r := newRig(t, 96*mib, "")
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	randomWork(r, rand.New(rand.NewPCG(7, 8)), 1000)
	doc := requireSameInBoth(t, r.a.Snapshot()).(map[string]any)
	for _, key := range []string{"external_annotations", "host_segments", "host_traces"} {
		require.Equal(t, []any{}, doc[key])
	}
	require.Contains(t, doc, "allocator_settings")
	end := ""
	for _, x := range doc["segments"].([]any) {
		seg := x.(map[string]any)
		requireKeys(t, seg, "device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type",
			"segment_pool_id", "is_expandable", "frames", "blocks")
		at := seg["address"]
		for _, x := range seg["blocks"].([]any) {
			b := x.(map[string]any)
			requireKeys(t, b, "address", "size", "requested_size", "state", "frames")
			require.IsType(t, []any{}, b["frames"])
			require.Equal(t, at, b["address"], "blocks follow each other")
			at = sumText(t, at, b["size"])
		}
		require.Equal(t, sumText(t, seg["address"], seg["total_size"]), at)
		require.Less(t, end, seg["address"])
		end = seg["address"].(string)
	}
	traces := doc["device_traces"].([]any)
	for _, x := range traces[len(traces)-1].([]any) {
		e := x.(map[string]any)
		address := "addr"
		if e["action"] == "oom" {
			address = "device_free"
		}
		requireKeys(t, e, "action", address, "size", "stream", "time_us", "compile_context", "user_metadata", "pool_id", "frames")
	}
}

func requireKeys(t testing.TB, dict map[string]any, keys ...string) {
	t.Helper()
	for _, k := range keys {
		require.Contains(t, dict, k)
	}
	require.Len(t, dict, len(keys))
}

func sumText(t testing.TB, x, y any) string {
	t.Helper()
	a, err := strconv.ParseUint(x.(string), 10, 64)
	require.NoError(t, err)
	b, err := strconv.ParseUint(y.(string), 10, 64)
	require.NoError(t, err)
	return strconv.FormatUint(a+b, 10)
}

func TestWritePickle_WritesAStackOnce(t *testing.T) {
	a := benchAllocator(t)
	require.NoError(t, a.RecordHistory(HistoryOptions{}))
	s := &fakeStream{}
	nested(20, func() {
		for range 1000 {
			b, _ := a.Alloc(4096, s)
			_ = a.Free(b)
		}
	})
	snapshot := a.Snapshot()
	require.Len(t, snapshot.DeviceTraces[0], 3001)
	require.Greater(t, len(snapshot.DeviceTraces[0][1].Frames), 20)
	require.Less(t, len(pickled(t, snapshot)), 3001*60)
	require.Greater(t, len(asJSON(t, snapshot)), 3001*2000, "JSON has no such means")
}

func TestSnapshot_StringIsThePicture(t *testing.T) {
	r := newRig(t, gib, "")
	a := r.alloc(4*mib, 2)
	b := r.alloc(1536*kib, 2)
	c := r.alloc(6*mib, 2)
	r.record(c, 1)
	r.free(b, c)
	want := "segment 0  20 MiB  large pool  stream 2\n| 4 MiB allocated | 1.5 MiB cached | 6 MiB pending (1 events) | 8.5 MiB cached |\n"
	require.Equal(t, want, r.a.Snapshot().String())
	require.Equal(t, want, r.a.picture())
	require.Empty(t, Snapshot{}.String())
	r.free(a)
}

func TestSettings_AreThoseInForce(t *testing.T) {
	r := newRig(t, gib, "max_split_size_mb:40,garbage_collection_threshold:0.7,roundup_power2_divisions:[1:2,64:4,>:8],pinned_num_register_threads:4")
	s := r.a.Snapshot().Settings
	require.Equal(t, r.a.Config().String(), s.Conf)
	require.EqualValues(t, 40*mib, s.MaxSplitSize)
	require.Equal(t, 0.7, s.GCThreshold)
	require.Equal(t, 4, s.PinnedNumRegisterThreads)
	require.EqualValues(t, -1, s.MaxCachedSize)
	require.Len(t, s.RoundupDivisions, 16)
	require.EqualValues(t, 2, s.RoundupDivisions["1"])
	require.EqualValues(t, 8, s.RoundupDivisions["32768"])
	r.conf("")
	s = r.a.Snapshot().Settings
	require.EqualValues(t, -1, s.MaxSplitSize)
	require.Equal(t, 1, s.PinnedNumRegisterThreads)
}

// shortWriter takes n bytes.
type shortWriter struct{ n int }

var errFull = errors.New("disk full")

func (w *shortWriter) Write(b []byte) (int, error) {
	w.n -= len(b)
	if w.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWrite_ReturnsTheErrorOfTheWriter(t *testing.T) {
	s := oddSnapshot()
	for _, format := range []SnapshotFormat{FormatJSON, FormatPickle, FormatHTML} {
		var whole bytes.Buffer
		require.NoError(t, s.Write(&whole, format))
		for room := 0; room < whole.Len(); room += 1 + whole.Len()/2000 {
			require.ErrorIs(t, s.Write(&shortWriter{room}, format), errFull, "%s, %d of %d bytes", format, room, whole.Len())
		}
		require.ErrorIs(t, s.Write(&shortWriter{whole.Len() - 1}, format), errFull)
		require.NoError(t, s.Write(&shortWriter{whole.Len()}, format))
	}
	require.ErrorContains(t, s.Write(&shortWriter{}, ".svg"), `format ".svg"`)
}

func TestDumpSnapshot_ChoosesTheFormByTheName(t *testing.T) {
	dev := sim.New(gib)
	t.Cleanup(func() { require.NoError(t, Drop(dev)) })
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	require.ErrorContains(t, DumpSnapshot(dev, name("none.json")), fmt.Sprintf("no snapshot of %s", dev.ID()))
	require.NoFileExists(t, name("none.json"))

	a, err := For(dev)
	require.NoError(t, err)
	b, err := a.Alloc(1000, dev.DefaultStream())
	require.NoError(t, err)
	require.NoError(t, DumpSnapshot(dev, name("a.json")))
	require.NoError(t, DumpSnapshot(dev, name("a.pickle")))
	require.NoError(t, DumpSnapshot(dev, name("a.html")))
	page, err := os.ReadFile(name("a.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), `"pieces":[1024,1,1024,0,0,1000,0,0,2096128,1,0,0,0,0,0,0]`)
	text, err := os.ReadFile(name("a.json"))
	require.NoError(t, err)
	data, err := os.ReadFile(name("a.pickle"))
	require.NoError(t, err)
	value, err := readPickle(data)
	require.NoError(t, err)
	require.Equal(t, normal(t, text), numbersAsText(value))
	require.ErrorContains(t, DumpSnapshot(dev, name("a.txt")), "must end in .pickle, .json or .html")
	require.ErrorIs(t, DumpSnapshot(dev, name("missing/a.json")), os.ErrNotExist)
	require.NoError(t, a.Free(b))
}

func TestUnsigned_TakesTheFewestBytesThatPythonTakes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "K\x00", 255: "K\xff", 256: "M\x00\x01", 65535: "M\xff\xff", 65536: "J\x00\x00\x01\x00", 1<<31 - 1: "J\xff\xff\xff\x7f",
		1 << 31: "\x8a\x05\x00\x00\x00\x80\x00", 1<<39 - 1: "\x8a\x05\xff\xff\xff\xff\x7f", 1 << 39: "\x8a\x06\x00\x00\x00\x00\x80\x00",
		1<<63 - 1: "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 1 << 63: "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00",
	} {
		var b bytes.Buffer
		d := newPickleDocument(&b)
		d.unsigned(n)
		require.NoError(t, d.close())
		require.Equal(t, "\x80\x04"+want+".", b.String(), "%d", n)
		v, err := readPickle(b.Bytes())
		require.NoError(t, err)
		require.Equal(t, new(big.Int).SetUint64(n), v)
	}
}

func TestReadPickle_RefusesWhatIsNotWrittenHere(t *testing.T) {
	for _, s := range []string{"", "\x80\x04", "\x80\x05K\x00.", "\x80\x04cos\nsystem\n.", "\x80\x04]K\x01e.", "\x80\x04K\x00K\x00.", "\x80\x04K\x00.x"} {
		_, err := readPickle([]byte(s))
		require.Error(t, err, "%q", s)
	}
	require.True(t, slices.Equal(pickled(t, Snapshot{})[:2], []byte{opProto, 4}))
}

// Pinned host memory is written like that of devices.
func TestSnapshot_WritesHostMemory(t *testing.T) {
	s := newRig(t, gib, "").a.Snapshot()
	s.HostSegments = []SegmentInfo{{Device: -1, TotalSize: 64, Type: "small", Blocks: []BlockInfo{{Size: 64, State: Inactive}}}}
	s.HostTraces = []TraceEntry{{Action: ActionAlloc, Size: 40}}
	var file bytes.Buffer
	require.NoError(t, s.WritePickle(&file))
	value, err := readPickle(file.Bytes())
	require.NoError(t, err)
	doc := numbersAsText(value).(map[string]any)
	requireKeys(t, doc["host_traces"].([]any)[0].(map[string]any), "action", "addr", "size", "stream", "time_us", "compile_context",
		"user_metadata", "pool_id", "frames")
	requireKeys(t, doc["host_segments"].([]any)[0].(map[string]any), "device", "address", "total_size", "allocated_size", "active_size",
		"requested_size", "stream", "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks")
}
