package main

import (
	"fmt"
	"os"
	"strings"
)

// tests has for each folder those whose tests must notice a mutant in it, in the order in which they run. The folder itself is the first.
type tests struct {
	folders []string
	of      map[string][]string
}

// readTests reads a file of lines "folder: folder...", where # begins a comment.
func readTests(name string) (tests, error) {
	t := tests{of: map[string][]string{}}
	err := eachLine(name, func(line string) error {
		folder, others, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("%q is not a folder, a colon and folders", line)
		}
		t.folders = append(t.folders, folder)
		t.of[folder] = append([]string{folder}, strings.Fields(others)...)
		return nil
	})
	return t, err
}

// equivalents are mutants that no test can notice, by file, line without and line with the change. They hold wherever in the file the line
// stands, so that the list survives changes elsewhere.
type equivalents map[[3]string]bool

func (e equivalents) have(m *mutant) bool {
	return e[[3]string{m.source.path, m.before(), m.after()}]
}

// readEquivalents reads a file of paragraphs: the path, "- " and the line, "+ " and its mutant, and the reason.
//
//	tensor/fill.go
//	- if n > 0 {
//	+ if n >= 0 {
//	  A fill of nothing writes nothing.
func readEquivalents(name string) (equivalents, error) {
	e := equivalents{}
	var key [3]string
	err := eachLine(name, func(line string) error {
		switch {
		case strings.HasPrefix(line, "- "):
			key[1] = line[2:]
		case strings.HasPrefix(line, "+"):
			key[2] = strings.TrimSpace(line[1:])
		case strings.HasPrefix(line, " "):
			if key[0] == "" || key[1] == "" {
				return fmt.Errorf("the reason %q has no mutant above it", line)
			}
			e[key] = true
		default:
			key = [3]string{line}
		}
		return nil
	})
	return e, err
}

// eachLine calls visit for the lines of a file that are not empty and no comments.
func eachLine(name string, visit func(string) error) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, " \r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if err := visit(line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
	return nil
}
