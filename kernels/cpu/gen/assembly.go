package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Assembly for amd64 as it is read: functions of instructions, without macros.

// statement is an instruction or a label.
type statement struct {
	label string
	op    string
	args  []string
}

// routine is a function in assembly.
type routine struct {
	name, frame string
	body        []statement
}

// assembly is what a file has.
type assembly struct {
	data     []string // DATA and GLOBL
	routines []*routine
}

type macro struct {
	params []string
	body   []string
}

var (
	defineLine = regexp.MustCompile(`^#define\s+(\w+)(\([^)]*\))?\s*(.*)$`)
	textLine   = regexp.MustCompile(`^TEXT ·(\w+)\(SB\), NOSPLIT, \$0-(\d+)$`)
)

// parse reads assembly for amd64, and takes its macros apart.
func parse(file string) (*assembly, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	a := &assembly{}
	macros := map[string]macro{}
	var add func(line string) error
	add = func(line string) error {
		for _, part := range strings.Split(line, ";") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			name := regexp.MustCompile(`^\w+`).FindString(part)
			if m, ok := macros[name]; ok && m.body != nil {
				for _, l := range m.expand(part[len(name):]) {
					if err := add(l); err != nil {
						return err
					}
				}
				continue
			}
			if err := a.add(part, macros); err != nil {
				return err
			}
		}
		return nil
	}
	lines := strings.Split(string(raw), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if at := strings.Index(line, "//"); at >= 0 {
			line = line[:at]
		}
		if m := defineLine.FindStringSubmatch(line); m != nil {
			d := macro{}
			for _, p := range strings.Split(strings.Trim(m[2], "()"), ",") {
				d.params = append(d.params, strings.TrimSpace(p))
			}
			text := m[3]
			for strings.HasSuffix(strings.TrimSpace(text), `\`) {
				d.body = append(d.body, strings.TrimSuffix(strings.TrimSpace(text), `\`))
				i++
				text = lines[i]
			}
			d.body = append(d.body, text)
			if len(d.body) == 1 && m[2] == "" { // a number
				d.params, d.body = []string{strings.TrimSpace(text)}, nil
			}
			macros[m[1]] = d
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		if err := add(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	return a, nil
}

// expand is the body of a macro with its arguments.
func (m macro) expand(call string) (lines []string) {
	args := operands(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(call), "("), ")"))
	for _, l := range m.body {
		if m.params[0] != "" {
			for i, p := range m.params {
				l = regexp.MustCompile(`\b`+p+`\b`).ReplaceAllLiteralString(l, args[i])
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// operands are separated by commas that are in no parentheses.
func operands(text string) (list []string) {
	depth, from := 0, 0
	for i, c := range text + "," {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			if o := strings.ReplaceAll(strings.TrimSpace(text[from:i]), " ", ""); o != "" {
				list = append(list, o)
			}
			from = i + 1
		}
	}
	return list
}

func (a *assembly) add(line string, macros map[string]macro) error {
	if strings.HasPrefix(line, "DATA") || strings.HasPrefix(line, "GLOBL") {
		a.data = append(a.data, line)
		return nil
	}
	if m := textLine.FindStringSubmatch(line); m != nil {
		a.routines = append(a.routines, &routine{name: m[1], frame: m[2]})
		return nil
	}
	if len(a.routines) == 0 {
		return fmt.Errorf("%q is in no function", line)
	}
	r := a.routines[len(a.routines)-1]
	if label, ok := strings.CutSuffix(line, ":"); ok {
		r.body = append(r.body, statement{label: label})
		return nil
	}
	op, rest, _ := strings.Cut(strings.Replace(line, "\t", " ", 1), " ")
	s := statement{op: op, args: operands(rest)}
	for i, arg := range s.args {
		for name, m := range macros {
			if m.body == nil { // numbers
				arg = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(arg, m.params[0])
			}
		}
		s.args[i] = arg
	}
	r.body = append(r.body, s)
	return nil
}
