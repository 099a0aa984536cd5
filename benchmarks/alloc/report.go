package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
)

// report is everything that is written.
type report struct {
	Machine  machine   `json:"machine"`
	Runs     int       `json:"runs"`
	Duration string    `json:"duration"` // of one measurement, about
	Results  []*Result `json:"results"`
}

// machine says where and when it was measured, and what.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Procs  int    `json:"gomaxprocs"`
	Go     string `json:"go"` // with operating system and architecture
	Date   string `json:"date"`
	Commit string `json:"commit"` // "unknown" if the build has no version control stamp
}

func thisMachine() machine {
	return machine{
		CPU: host.Default().Properties().Name, Cores: runtime.NumCPU(), Procs: runtime.GOMAXPROCS(0),
		Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, Date: time.Now().UTC().Format(time.DateOnly), Commit: commit(),
	}
}

// commit is the revision that this program was built from, with "+changes" if the tree had more than that.
func commit() string {
	revision, changes := "unknown", ""
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return revision
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changes = "+changes"
		}
	}
	return revision + changes
}

func (r *report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	m := r.Machine
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, GOMAXPROCS %d, %s, %s, commit %s\n", m.CPU, m.Cores, m.Procs, m.Go, m.Date, m.Commit)
	fmt.Fprintf(&b, "ns per allocation and its free, per thread: median of %d runs of about %s (lowest-highest)\n\n",
		r.Runs, r.Duration)
	if err := r.table(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table has a row for each workload and a column for each subject.
func (r *report) table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var names []string
	for _, c := range r.Results {
		if !slices.Contains(names, c.Subject) {
			names = append(names, c.Subject)
		}
	}
	fmt.Fprint(tw, "workload\tthreads\t")
	for _, name := range names {
		fmt.Fprintf(tw, "%s\t", name)
	}
	for _, name := range names[1:] {
		fmt.Fprintf(tw, "%s / %s\t", name, names[0]) // how many times the first one's
	}
	fmt.Fprint(tw, "from the driver\t\n")
	for row := range slices.Chunk(r.Results, len(names)) {
		writeRow(tw, row)
	}
	return tw.Flush()
}

// writeRow writes the cells of one workload, the other subjects' times in those of the first, and what each took from the
// driver where that is known.
func writeRow(w io.Writer, row []*Result) {
	fmt.Fprintf(w, "%s\t%d\t", row[0].Workload, row[0].Threads)
	for _, c := range row {
		fmt.Fprintf(w, "%.0f (%.0f-%.0f)\t", c.NsPerPair, slices.Min(c.Runs), slices.Max(c.Runs))
	}
	for _, c := range row[1:] {
		fmt.Fprintf(w, "%.2f\t", c.NsPerPair/row[0].NsPerPair)
	}
	var taken []string
	for _, c := range row {
		if c.DriverBytes > 0 {
			taken = append(taken, device.FormatBytes(c.DriverBytes))
		}
	}
	fmt.Fprintf(w, "%s\t\n", strings.Join(taken, " : "))
}
