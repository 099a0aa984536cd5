package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// profiled is what the profiler said of a kernel: its name, how it was launched, and metrics with their units.
type profiled struct {
	Kernel  string            `json:"kernel"`
	Launch  string            `json:"launch"`
	Metrics map[string]string `json:"metrics"`
}

// metrics are the columns of the table, by the profiler's names.
var metrics = []struct{ name, title string }{
	{"gpu__time_duration.sum", "time"},
	{"dram__bytes.sum", "DRAM bytes"},
	{"dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM % of peak"},
	{"sm__throughput.avg.pct_of_peak_sustained_elapsed", "processors % of peak"},
	{"sm__warps_active.avg.pct_of_peak_sustained_active", "warps %"},
	{"launch__registers_per_thread", "registers"},
}

// profiles reads the profiler's files (ncu --page raw --csv): a line of titles, one of units, then a line for each launch. Of launches
// of one kernel with one grid the last one counts. It takes no paths or names of machines along.
func profiles(folder string) ([]*profiled, error) {
	files, err := filepath.Glob(filepath.Join(folder, "ncu-*.csv"))
	if err != nil {
		return nil, err
	}
	var all []*profiled
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, parseProfile(string(text))...)
	}
	return all, nil
}

// parseProfile reads as far as it understands: a profiler that is stopped leaves half a line.
func parseProfile(text string) (all []*profiled) {
	begin := strings.Index(text, `"ID"`)
	if begin < 0 {
		return nil
	}
	r := csv.NewReader(strings.NewReader(text[begin:]))
	r.FieldsPerRecord = -1
	titles, err := r.Read()
	if err != nil {
		return nil
	}
	units, err := r.Read()
	if err != nil {
		return nil
	}
	place := map[string]*profiled{}
	for {
		line, err := r.Read()
		if errors.Is(err, io.EOF) || err != nil || len(line) != len(titles) {
			return all
		}
		p := newProfiled(titles, units, line)
		key := p.Kernel + p.Launch
		if old := place[key]; old != nil {
			*old = *p
			continue
		}
		place[key] = p
		all = append(all, p)
	}
}

func newProfiled(titles, units, line []string) *profiled {
	p := &profiled{Metrics: map[string]string{}}
	for i, title := range titles {
		switch {
		case title == "Kernel Name":
			p.Kernel = line[i]
		case title == "Grid Size" || title == "Block Size":
			p.Launch += line[i]
		case strings.Contains(title, "__"):
			p.Metrics[title] = line[i]
			if i < len(units) && units[i] != "" && units[i] != "%" {
				p.Metrics[title] += " " + units[i]
			}
		}
	}
	return p
}

// profileTable prints what the profiler said.
func (r *Results) profileTable(w io.Writer) {
	all := figures[[]profiled](r, "profile")
	if all == nil {
		return
	}
	fmt.Fprint(w, "### profile\n\n| kernel | block, grid |")
	for _, m := range metrics {
		fmt.Fprintf(w, " %s |", m.title)
	}
	fmt.Fprint(w, "\n|---|---|", strings.Repeat("---|", len(metrics)), "\n")
	for _, p := range *all {
		fmt.Fprintf(w, "| %s | %s |", p.Kernel, p.Launch)
		for _, m := range metrics {
			fmt.Fprintf(w, " %s |", p.Metrics[m.name])
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// addProfile puts the profiler's numbers beside those of the programs.
func (r *Results) addProfile(logs string) error {
	all, err := profiles(logs)
	if err != nil || len(all) == 0 {
		return err
	}
	r.Figures["profile"], err = json.Marshal(all)
	return err
}

// mostRows is how much of each table of a profile is shown.
const mostRows = 22

// profileTexts are the library's own profiles in a folder of logs: the head and the first rows of each table.
func profileTexts(folder string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "profile-*.txt"))
	texts := map[string]string{}
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		if readErr != nil {
			return nil, readErr
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "profile-"), ".txt")
		texts[name] = firstRows(string(text), "logs.tar.gz has them: logs/"+filepath.Base(file))
	}
	return texts, err
}

// firstRows cuts the paragraphs of a text after so many lines, and says so.
func firstRows(text, where string) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range paragraphs {
		if lines := strings.Split(p, "\n"); len(lines) > mostRows+1 {
			paragraphs[i] = strings.Join(lines[:mostRows], "\n") + fmt.Sprintf("\n... %d more rows; %s", len(lines)-mostRows, where)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// ownProfiles prints them.
func (r *Results) ownProfiles(w io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(r.Profiles)) {
		block(w, "Time by kernel: "+name, r.Profiles[name])
	}
}
