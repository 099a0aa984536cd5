package journal

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
)

// begin begins to record in some logs.
func begin(o Options, logs int) []*Logbook {
	rec := NewRecorder(o, fpstack.NewTable(16), nil)
	list := make([]*Logbook, logs)
	for i := range list {
		list[i] = &Logbook{Stream: device.StreamID(i), Pool: Pool{0, uint64(i)}}
		list[i].SetRecorder(rec)
	}
	return list
}

// addresses are those of the entries that there are, of one pool or all.
func addresses(logs []*Logbook, want *Pool) (list []int) {
	rec := logs[0].Recorder()
	w := rec.Prepare(len(logs))
	rec.Copy(&w, logs)
	last := int64(math.MinInt64)
	for e := range w.Entries(want) {
		list = append(list, int(e.Addr))
		if e.TimeUS < last {
			return nil
		}
		last = e.TimeUS
	}
	return list
}

func TestEntries_OfAllLogsAreInOneOrder(t *testing.T) {
	logs := begin(Options{Trace: true, Entries: 100}, 3)
	for i, log := range []int{2, 0, 0, 1, 2} {
		logs[log].Write(Alloc, device.Ptr(i), 1, logs[log].Recorder().OfAlloc())
	}
	require.Equal(t, []int{0, 1, 2, 3, 4}, addresses(logs, nil))
	require.Equal(t, []int{0, 4}, addresses(logs, &Pool{0, 2}))
}

func TestEntries_AreExactlyTheNewest(t *testing.T) {
	for _, most := range []int{1, 7, 100, 5000} {
		logs := begin(Options{Trace: true, Entries: most}, 2)
		for i := range 3000 {
			logs[i/50%2].Write(Alloc, device.Ptr(i), 1, Site{})
		}
		list := addresses(logs, nil)
		require.Len(t, list, min(most, 3000))
		require.Equal(t, 2999, list[len(list)-1])
		require.True(t, slices.IsSorted(list))
	}
}

func TestWrite_SkipsWhatIsNotWanted(t *testing.T) {
	logs := begin(Options{Trace: true, Entries: 10, Skip: SkipNamed([]string{"free_completed"})}, 1)
	logs[0].WriteFree(1, 1, Site{}, true)
	require.Equal(t, []int{1}, addresses(logs, nil), "of the pair only the first")
	logs = begin(Options{Entries: 10}, 1)
	logs[0].WriteFree(1, 1, Site{}, true)
	require.Empty(t, addresses(logs, nil), "no trace")
}

// A log that ends keeps its entries, and one that goes on for another stream too.
func TestSeal_AndClose_KeepWhatWasWritten(t *testing.T) {
	logs := begin(Options{Trace: true, Entries: 10}, 2)
	logs[0].Write(Alloc, 1, 1, Site{})
	logs[0].Seal()
	logs[0].Stream = 9
	logs[0].Write(Alloc, 2, 1, Site{})
	logs[1].Write(Alloc, 3, 1, Site{})
	logs[1].Close()
	require.False(t, logs[1].On())
	require.Equal(t, []int{1, 2, 3}, addresses(logs[:1], nil))
}

func TestSetRecorder_GoesOnOrForgets(t *testing.T) {
	logs := begin(Options{Trace: true, Entries: 10}, 1)
	logs[0].Write(Alloc, 1, 1, Site{})
	logs[0].SetRecorder(NewRecorder(Options{Trace: true, Entries: 5}, nil, logs[0].Recorder()))
	logs[0].Write(Alloc, 2, 1, Site{})
	require.Equal(t, []int{1, 2}, addresses(logs, nil))
	logs[0].SetRecorder(NewRecorder(Options{Trace: true, Entries: 5}, nil, nil))
	require.Empty(t, addresses(logs, nil))
}

func TestOfAllocator_KnowsMethodsOnly(t *testing.T) {
	const memory = "github.com/cistern-ml/cistern/memory"
	for name, want := range map[string]bool{
		memory + ".(*Caching).Alloc": true, memory + "/pinned.(*Allocator).Alloc": true, memory + "/internal/journal.(*Recorder).OfFree": true,
		memory + ".TestX": false, memory + "/memtest.(*X).Y": false, "main.main": false, memory + "_test.(*rig).alloc": false,
	} {
		require.Equal(t, want, ofAllocator(name), name)
	}
}
