package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

// shownOOMs is how many failed requests the table lists; -json lists all.
const shownOOMs = 10

// writeTable writes a result for people; direct says that the allocator had no cache, and so no settings.
func writeTable(w io.Writer, t *trace.Trace, r *replay.Result, direct bool) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	writeHead(tw, t, r, direct)
	writePeaks(tw, r)
	writeDriver(tw, r)
	writeOOMs(tw, r)
	writeMarks(tw, r)
	if err := tw.Flush(); err != nil {
		return err
	}
	b.WriteString("\n" + r.Stats.Summary(r.ID, false, memory.AsPyTorch()))
	_, err := io.WriteString(w, b.String())
	return err
}

func writeHead(w io.Writer, t *trace.Trace, r *replay.Result, direct bool) {
	fmt.Fprintf(w, "trace\t%s\n", r.Trace)
	for _, line := range t.Header {
		fmt.Fprintf(w, "\t%s\n", line)
	}
	fmt.Fprintf(w, "events\t%d: %d allocations, %d frees, %d uses on another stream\n", r.Events, r.Allocs, r.Frees, r.Records)
	fmt.Fprintf(w, "device\t%s, %s (%d bytes)\n", r.ID.Kind, device.FormatBytes(r.Config.Capacity), r.Config.Capacity)
	fmt.Fprintf(w, "allocator\t%s\n", r.Allocator)
	text := settings(r.Config)
	if direct {
		text = "none: a driver call for each request"
	}
	fmt.Fprintf(w, "settings\t%s\n", text)
	fmt.Fprintf(w, "time\t%.0f ns per allocation and its free, in a second pass over all of the trace\n", r.NsPerPair)
	if s := r.Steady; s != nil {
		fmt.Fprintf(w, "steady\t%.3f of what is active reserved at most from mark %d on, %d requests not by the plan\n", float64(s.PeakReserved)/float64(max(s.PeakActive, 1)), s.FromMark, s.Deviations)
		fmt.Fprintf(w, "\t%.1f driver calls a step, %.1f in the second half of these steps; %.0f ns per allocation and its free in the median step\n", s.DriverCallsPerStep, s.LateCallsPerStep, s.NsPerPair)
	}
}

func settings(c replay.Config) string {
	text := c.AllocConf
	if text == "" {
		text = "default"
	}
	if c.Fraction != nil {
		text += fmt.Sprintf(", memory fraction %g", *c.Fraction)
	}
	return text
}

func writePeaks(w io.Writer, r *replay.Result) {
	fmt.Fprint(w, "\nmemory\tpeak\tat the end\tpeak in bytes\n")
	row := func(name string, peak, current uint64) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", name, device.FormatBytes(peak), device.FormatBytes(current), peak)
	}
	row("requested", r.Requested.Peak, r.Requested.Current)
	for _, m := range []struct {
		name string
		stat memory.Stat
	}{
		{"allocated", r.Stats.AllocatedBytes.All}, {"active", r.Stats.ActiveBytes.All}, {"reserved", r.Stats.ReservedBytes.All},
		{"inactive split", r.Stats.InactiveSplitBytes.All},
	} {
		row(m.name, uint64(m.stat.Peak), uint64(m.stat.Current))
	}
	fmt.Fprintf(w, "fragmentation\t%.4f (peak reserved / peak allocated)\n", r.PeakFragmentation)
	row("from the driver", r.Driver.BytesPeak, r.Driver.BytesNow)
	fmt.Fprintf(w, "live blocks\t%d\n", r.LivePeak)
	fmt.Fprintf(w, "map at the end\t%d segments, %d blocks\n", r.Final.Segments, r.Final.Blocks)
	fmt.Fprintf(w, "hashes\t%s (placement)  %s (driver)  %s (map)\n", r.Hash.Placement, r.Hash.Driver, r.Hash.FinalSegments)
}

// writeDriver lists the driver calls that were made, and those that are asked about even if there were none.
func writeDriver(w io.Writer, r *replay.Result) {
	d := r.Driver
	fmt.Fprint(w, "\ndriver call\tcount\tfailed\n")
	for _, c := range []struct {
		name          string
		count, failed uint64
		always        bool
	}{
		{"cudaMalloc", d.Malloc, d.MallocFailed, true}, {"cudaFree", d.Free, 0, true},
		{"cuMemAddressReserve", d.AddressReserve, 0, false}, {"cuMemCreate", d.PageCreate, d.PageCreateFailed, false},
		{"cuMemMap", d.PageMap, 0, false}, {"cuMemUnmap", d.PageUnmap, 0, false}, {"cuMemRelease", d.PageRelease, 0, false},
		{"cudaEventCreate", d.EventCreate, 0, false}, {"cudaEventRecord", d.EventRecord, 0, false},
		{"cudaEventQuery", d.EventQuery, 0, false}, {"cudaEventSynchronize", d.EventSync, 0, false},
	} {
		if c.always || c.count > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\n", c.name, c.count, c.failed)
		}
	}
}

func writeOOMs(w io.Writer, r *replay.Result) {
	fmt.Fprintf(w, "\nout of memory\t%d\n", len(r.OOMs))
	if len(r.OOMs) == 0 {
		return
	}
	fmt.Fprint(w, "event\tid\tbytes\n")
	for _, o := range r.OOMs[:min(shownOOMs, len(r.OOMs))] {
		fmt.Fprintf(w, "%d\t%d\t%d\n", o[0], o[1], o[2])
	}
	if more := len(r.OOMs) - shownOOMs; more > 0 {
		fmt.Fprintf(w, "...\t%d more: see -json\n", more)
	}
}

func writeMarks(w io.Writer, r *replay.Result) {
	fmt.Fprint(w, "\nmark\tevent\tallocated\treserved\tactive\tinactive split\n")
	for _, m := range r.Marks {
		cells := []string{m.Label, strconv.Itoa(m.Event)}
		for _, n := range []int64{m.Allocated, m.Reserved, m.Active, m.InactiveSplit} {
			cells = append(cells, device.FormatBytes(uint64(n)))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
}
