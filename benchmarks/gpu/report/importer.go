package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// importer is the import command.
type importer struct {
	results, tables string
	force           bool
}

// importAll takes the folders, which are of one GPU and one commit. If a program ran in several, the last one counts.
func (m *importer) importAll(folders []string, stdout io.Writer) error {
	var all *Results
	for i, folder := range folders {
		if slices.Contains(folders[:i], folder) {
			return fmt.Errorf("%s is named twice", folder)
		}
		r, err := open(folder)
		if err != nil {
			return err
		}
		if err := m.check(r); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if all == nil {
			all = r
			continue
		}
		if err := all.add(r); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	files, err := m.write(all)
	if err != nil {
		return err
	}
	if err := m.addEarlier(all); err != nil {
		return err
	}
	if err := m.section(all, files); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d files in %s; the tables are in %s\n", len(files), filepath.Join(m.results, all.folder()), m.tables)
	return err
}

// check refuses numbers that say nothing about a GPU.
func (m *importer) check(r *Results) error {
	if err := r.whole(); err != nil {
		return err
	}
	switch {
	case m.force:
		return nil
	case !strings.HasPrefix(r.Device, "cuda"):
		return fmt.Errorf("the steps ran on %q", r.Device)
	case r.Quick:
		return errors.New("the settings were quick ones")
	case r.Name == "":
		return errors.New("no program found a GPU")
	case strings.Contains(strings.ToLower(r.Name), "emulated"):
		return fmt.Errorf("%s is no GPU", r.Name)
	}
	return nil
}

// whole refuses what run.sh has not written like that.
func (r *Results) whole() error {
	if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
		return fmt.Errorf("results.json is damaged: date %q", r.Date)
	}
	if r.Commit == "" || len(r.Steps) == 0 {
		return errors.New("results.json is damaged: it has no commit, or no steps")
	}
	for name, figures := range r.Figures {
		if !named.MatchString(name) || !bytes.HasPrefix(figures, []byte("{")) && !bytes.HasPrefix(figures, []byte("[")) {
			return fmt.Errorf("results.json is damaged: the figures of %q", name)
		}
	}
	return nil
}

var named = regexp.MustCompile(`^[a-z0-9-]+$`)

// addEarlier adds the last numbers of programs that did not run this time from earlier imports of the same GPU.
func (m *importer) addEarlier(r *Results) error {
	files, err := filepath.Glob(filepath.Join(m.results, r.folder(), "*.json"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	slices.Reverse(files) // the last date of a name comes first
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), ".json")
		if len(base) < len(time.DateOnly)+2 {
			continue
		}
		name := base[:len(base)-len(time.DateOnly)-1]
		if _, there := r.Figures[name]; there || name == "steps" || name == "profiles" {
			continue
		}
		var earlier struct {
			Date, Commit string
			Figures      json.RawMessage
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &earlier)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		r.Figures[name] = earlier.Figures
		r.older = append(r.older, fmt.Sprintf("%s (%s, commit %s)", name, earlier.Date, earlier.Commit))
	}
	return nil
}

// add adds what another run of the same commit found on the same GPU.
func (r *Results) add(o *Results) error {
	if o.Name != "" && r.Name != "" && o.Name != r.Name || o.Commit != r.Commit {
		return fmt.Errorf("%s at %s is not %s at %s", o.Name, o.Commit, r.Name, r.Commit)
	}
	r.Steps = append(r.Steps, o.Steps...)
	r.Command += "; " + o.Command
	if r.Facts == "" {
		r.Facts = o.Facts
	}
	if r.Name == "" {
		r.Name = o.Name
	}
	maps.Copy(r.Figures, o.Figures)
	if r.Profiles == nil {
		r.Profiles = map[string]string{}
	}
	maps.Copy(r.Profiles, o.Profiles)
	return nil
}

var unusual = regexp.MustCompile(`[^a-z0-9]+`)

// folder is the GPU's name as that of a folder.
func (r *Results) folder() string {
	name := strings.Trim(unusual.ReplaceAllString(strings.ToLower(r.Name), "-"), "-")
	if name == "" {
		return "unknown"
	}
	return name
}

// write writes a file for each program, with date, commit and command beside its numbers, and one for the steps.
func (m *importer) write(r *Results) (files []string, err error) {
	folder := filepath.Join(m.results, r.folder())
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	type provenance struct {
		Date    string `json:"date"`
		Commit  string `json:"commit"`
		Go      string `json:"go"`
		Command string `json:"command"`
		Device  string `json:"device"`
	}
	from := provenance{Date: r.Date, Commit: r.Commit, Go: r.Go, Command: r.Command, Device: r.Name}
	put := func(name string, content any) error {
		text, err := json.MarshalIndent(struct {
			provenance
			Content any `json:"figures"`
		}{from, content}, "", "  ")
		if err != nil {
			return err
		}
		name += "-" + r.Date + ".json"
		files = append(files, name)
		return os.WriteFile(filepath.Join(folder, name), append(text, '\n'), 0o644)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		if err := put(name, r.Figures[name]); err != nil {
			return nil, err
		}
	}
	if len(r.Profiles) > 0 {
		if err := put("profiles", r.Profiles); err != nil {
			return nil, err
		}
	}
	return files, put("steps", struct {
		Steps []Step `json:"steps"`
		Facts string `json:"facts"`
	}{r.Steps, r.Facts})
}

// noGPU is what the tables say as long as they have none of a GPU's.
const noGPU = "No section is from a GPU yet: there was none so far; `benchmarks/gpu` has what to run on one.\n\n"

// section replaces the GPU's section of the tables, or adds it at the end.
func (m *importer) section(r *Results, files []string) error {
	text, err := os.ReadFile(m.tables)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text = bytes.Replace(text, []byte(noGPU), nil, 1)
	begin := []byte("<!-- run.sh on " + r.folder() + " -->\n")
	end := []byte("<!-- end of run.sh on " + r.folder() + " -->\n")
	var b bytes.Buffer
	b.Write(begin)
	r.page(&b, files)
	b.Write(end)
	if i, j := bytes.Index(text, begin), bytes.Index(text, end); i >= 0 && j > i {
		text = slices.Concat(text[:i], b.Bytes(), text[j+len(end):])
	} else {
		text = slices.Concat(bytes.TrimRight(text, "\n"), []byte("\n\n"), b.Bytes())
	}
	return os.WriteFile(m.tables, text, 0o644)
}

// page is the section: where the numbers are from, the targets, how the steps ended, all tables.
func (r *Results) page(w io.Writer, files []string) {
	fmt.Fprintf(w, "## %s: run.sh\n\nDate %s, commit %s, %s. Command: `%s` ([raw figures](results/%s): %s).\n\n", r.Name, r.Date, r.Commit, r.Go, r.Command,
		r.folder(), strings.Join(files, ", "))
	if len(r.older) > 0 {
		fmt.Fprintf(w, "Of earlier runs: %s.\n\n", strings.Join(r.older, ", "))
	}
	block(w, "The machine", firstLines(r.Facts, mostFacts))
	r.targets(w)
	r.faster(w)
	var ended []string
	for _, s := range r.Steps {
		outcome := "passed"
		if s.Exit != "0" {
			outcome = "exit " + s.Exit
			if s.Exit == "skipped" || s.missing() {
				outcome = s.Exit
			}
		}
		if s.Remark != "" {
			outcome += " (" + s.Remark + ")"
		}
		ended = append(ended, s.Name+" "+outcome)
	}
	fmt.Fprintf(w, "Steps: %s.\n\n", strings.Join(ended, "; "))
	r.tables(w)
	r.ownProfiles(w)
}
