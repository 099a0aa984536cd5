package memory

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// testdata/summary.txt is torch.cuda.memory_summary(0) after: allocate 1000 bytes, 3 MiB, 30 MiB, free the 3 MiB block.
func summaryExample(t testing.TB) (r *rig, middle Block) {
	r = newCUDARig(t, gib, "")
	r.alloc(1000, 0)
	middle = r.alloc(3*mib, 0)
	r.alloc(30*mib, 0)
	return r, middle
}

func TestSummary_EqualsPyTorchsByteForByte(t *testing.T) {
	want, err := os.ReadFile("testdata/summary.txt")
	require.NoError(t, err)
	r, middle := summaryExample(t)
	r.free(middle)
	require.Equal(t, string(want), r.a.Stats().Summary(r.a.Device(), false, AsPyTorch()))

	var short strings.Builder
	for line := range strings.Lines(string(want)) {
		if !strings.Contains(line, " pool ") {
			short.WriteString(line)
		}
	}
	require.Equal(t, 29, strings.Count(short.String(), "\n"))
	require.Equal(t, short.String(), r.a.Stats().Summary(r.a.Device(), true, AsPyTorch()))
}

// PyTorch's heading names PyTorch and a number, which says nothing to whoever has seen neither. All below it is the same.
func TestSummary_IsHeadedByTheDevice(t *testing.T) {
	s := newRig(t, gib, "").a.Stats()
	for id, want := range map[device.ID]string{
		{Kind: device.Host}:           "Memory of host (this computer's processor)",
		{Kind: device.Sim, Index: 2}:  "Memory of sim:2 (a simulated device)",
		{Kind: device.CUDA, Index: 1}: "Memory of cuda:1 (an NVIDIA GPU)",
		{Kind: device.Kind(9)}:        "Memory of Kind(9)",
	} {
		own, torch := strings.Split(s.Summary(id, false, nil), "\n"), strings.Split(s.Summary(id, false, AsPyTorch()), "\n")
		require.Equal(t, want, strings.TrimSpace(strings.Trim(own[1], "|")))
		require.Contains(t, torch[1], " PyTorch ")
		own[1] = torch[1]
		require.Equal(t, torch, own)
	}
}

// Rows of pools that nobody keeps would say 0 of what there is.
func TestSummary_OfAnAllocatorWithoutPoolsHasNoRowsOfThem(t *testing.T) {
	dev := sim.New(gib)
	a := NewDirect(dev)
	b, err := a.Alloc(3*mib, dev.DefaultStream())
	require.NoError(t, err)
	s := a.Stats()
	require.Contains(t, s.Summary(a.Device(), false), "| Allocated memory      |   3072 KiB |   3072 KiB |   3072 KiB |      0 B   |")
	require.NotContains(t, s.Summary(a.Device(), false), "small pool")
	require.Contains(t, s.Summary(a.Device(), false, AsPyTorch()), "small pool")
	require.NoError(t, a.Free(b))
	require.NoError(t, a.Close())
}

// The same program step by step.
func TestStats_StepByStep(t *testing.T) {
	r := newRig(t, gib, "")
	step := func(allocation, allocatedBytes, active, split, splitBytes, segment, reserved int64) {
		t.Helper()
		s := r.a.Stats()
		require.Equal(t, []int64{allocation, allocatedBytes, active, split, splitBytes, segment, reserved}, []int64{
			s.Allocation.All.Current, s.AllocatedBytes.All.Current, s.Active.All.Current, s.InactiveSplit.All.Current,
			s.InactiveSplitBytes.All.Current, s.Segment.All.Current, s.ReservedBytes.All.Current,
		})
	}
	r.alloc(1000, 0)
	step(1, 1024, 1, 1, 2096128, 1, 2097152)
	middle := r.alloc(3*mib, 0)
	step(2, 3146752, 2, 2, 19921920, 2, 23068672)
	r.alloc(30*mib, 0)
	step(3, 34604032, 3, 2, 19921920, 3, 54525952)
	r.free(middle)
	step(2, 31458304, 2, 1, 2096128, 3, 54525952)
	r.empty()
	step(2, 31458304, 2, 1, 2096128, 2, 33554432)
}

func TestSummary_LinesAlignForEveryDevice(t *testing.T) {
	s := newRig(t, gib, "").a.Stats()
	for _, kind := range []device.Kind{device.CUDA, device.Host, device.Sim} {
		for _, index := range []int{0, 7, 123} {
			for _, opts := range [][]SummaryOption{nil, {AsPyTorch()}} {
				text := s.Summary(device.ID{Kind: kind, Index: index}, false, opts...)
				require.Equal(t, 47, strings.Count(text, "\n"))
				for line := range strings.Lines(text) {
					require.Len(t, line, 78, "%s:%d: %s", kind, index, line)
				}
			}
		}
	}
}

func TestSizeCell_ChoosesTheUnitByTheReference(t *testing.T) {
	for _, c := range []struct {
		value, reference int64
		want             string
	}{
		{0, 0, "     0 B  "},
		{786431, 786431, "786431 B  "},
		{786432, 786432, "   768 KiB"},
		{1023, 786432, "     0 KiB"}, // truncated
		{768*mib - 1, 768*mib - 1, "786431 KiB"},
		{768 * mib, 768 * mib, "   768 MiB"},
		{mib - 1, 768 * mib, "     0 MiB"},
		{768 * gib, 768 * gib, "   768 GiB"},
		{768 * 1024 * gib, 768 * 1024 * gib, "   768 TiB"},
		{768 * 1024 * 1024 * gib, 768 * 1024 * 1024 * gib, "   768 PiB"},
		{1 << 62, 1 << 62, "  4096 PiB"}, // the last unit
	} {
		require.Equal(t, c.want, sizeCell(c.value, c.reference), "%d under %d", c.value, c.reference)
	}
}

func TestCountCell_ChoosesTheUnitByTheReference(t *testing.T) {
	for _, c := range []struct {
		value, reference int64
		want             string
	}{
		{0, 0, "      0   "},
		{749999, 749999, " 749999   "},
		{750000, 750000, "    750 K "},
		{999, 750000, "      0 K "},
		{749999999, 749999999, " 749999 K "},
		{750000000, 750000000, "    750 M "},
		{750000000000, 750000000000, " 750000 M "}, // the last unit
	} {
		require.Equal(t, c.want, countCell(c.value, c.reference), "%d under %d", c.value, c.reference)
	}
}
