package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// What is shown of the logs at most.
const (
	mostFailures = 120 // lines
	mostErrors   = 8   // lines of a log's standard error
	mostFacts    = 45  // lines
)

// summary prints what a person wants to see first: what failed, the targets, then the tables.
func (r *Results) summary(w io.Writer) {
	fmt.Fprintf(w, "# GPU run of commit %s on %s, %s\n\n", r.Commit, r.Device, r.Date)
	failed, seconds := 0, 0
	var missing []string
	for _, s := range r.Steps {
		seconds += s.Seconds
		if s.failed() {
			failed++
		}
		if s.missing() {
			missing = append(missing, s.Name)
		}
	}
	fmt.Fprintf(w, "`%s`: %d steps failed; %d s in steps.", r.Command, failed, seconds)
	if r.Quick {
		fmt.Fprint(w, " Quick settings, so no figure counts.")
	}
	fmt.Fprint(w, "\n\n")
	if len(missing) > 0 {
		fmt.Fprintf(w, "**Not finished**: %s.\n\n", strings.Join(missing, ", "))
	}
	r.targets(w)
	r.faster(w)
	fmt.Fprint(w, "| step | exit | seconds | remark |\n|---|---|---|---|\n")
	for _, s := range r.Steps {
		fmt.Fprintf(w, "| %s | %s | %d | %s |\n", s.Name, s.Exit, s.Seconds, strings.ReplaceAll(s.Remark, "|", "/"))
	}
	fmt.Fprintln(w)
	block(w, "Failed tests", r.failures())
	block(w, "Errors", r.errors())
	block(w, "The machine", firstLines(r.Facts, mostFacts))
	r.tables(w)
	r.ownProfiles(w)
}

// block prints text as it is, under a title, if there is any.
func block(w io.Writer, title, text string) {
	if text = strings.TrimRight(text, "\n"); text != "" {
		fmt.Fprintf(w, "### %s\n\n```\n%s\n```\n\n", title, text)
	}
}

func firstLines(text string, most int) string {
	lines := strings.SplitAfterN(text, "\n", most+1)
	return strings.Join(lines[:min(most, len(lines))], "")
}

// log is a file of the run's logs, "" if there is none.
func (r *Results) log(name string) string {
	text, err := os.ReadFile(filepath.Join(r.run, "logs", name))
	if err != nil {
		return ""
	}
	return string(bytes.ToValidUTF8(text, []byte("?")))
}

// telling are the lines of a test's output that say what went wrong.
var telling = regexp.MustCompile(`--- FAIL|^\s+Error:|^\s+Messages:|^\s+(expected|actual) *:|^panic:|^fatal error|CUDA_ERROR`)

// failures are lines of the tests' logs.
func (r *Results) failures() string {
	var lines []string
	for _, s := range r.Steps {
		if !s.failed() || !strings.Contains(s.Name, "test") && !strings.HasPrefix(s.Name, "sanitizer") {
			continue
		}
		lines = append(lines, s.Name+":")
		follows := false // what the line before has begun to say
		for line := range strings.Lines(r.log(s.Name + ".log")) {
			told := follows || telling.MatchString(line)
			follows = strings.Contains(line, "Received unexpected error:")
			if told || strings.HasPrefix(line, "========= ") && !strings.HasPrefix(line, "=========     ") {
				lines = append(lines, strings.TrimRight(line, "\n"))
			}
			if len(lines) >= mostFailures {
				return strings.Join(append(lines, "... (see logs.tar.gz)"), "\n")
			}
		}
	}
	return strings.Join(lines, "\n")
}

// errors are the ends of what failed steps wrote to their standard error.
func (r *Results) errors() string {
	var b strings.Builder
	for _, s := range r.Steps {
		text := strings.TrimSpace(r.log(s.Name + ".err"))
		if !s.failed() || text == "" {
			continue
		}
		if at := strings.Index(text, "SIGQUIT: quit"); at >= 0 {
			fmt.Fprintf(&b, "%s, when its time was over:\n%s\n", s.Name, stacks(text[at:]))
			continue
		}
		lines := strings.Split(text, "\n")
		fmt.Fprintf(&b, "%s:\n%s\n", s.Name, strings.Join(lines[max(0, len(lines)-mostErrors):], "\n"))
	}
	return b.String()
}

// What is shown of a program's stacks.
const (
	mostStacks = 3
	mostFrames = 16 // lines
)

// stacks are those of the goroutines that were in the library, of all that Go writes when a program is told to quit.
func stacks(text string) string {
	var list []string
	for _, s := range strings.Split(text, "\n\n") {
		if !strings.HasPrefix(s, "goroutine ") || !strings.Contains(s, "cistern-ml/cistern") {
			continue
		}
		list = append(list, strings.TrimRight(firstLines(s+"\n", mostFrames), "\n"))
		if len(list) == mostStacks {
			break
		}
	}
	return strings.Join(list, "\n\n")
}
