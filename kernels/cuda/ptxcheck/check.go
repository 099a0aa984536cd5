package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/internal/ptx"
)

// architectures are those that the PTX must be good for: A100; RTX 30; RTX 40 and L4; H100.
var architectures = []string{"sm_80", "sm_86", "sm_89", "sm_90"}

// Variable names the compiler's library, for where it is not in a folder that the system's loader knows.
const Variable = "CISTERN_PTXJIT"

// candidates are the files to try.
func candidates() []string {
	if set := os.Getenv(Variable); set != "" {
		return []string{set}
	}
	return []string{"libnvidia-ptxjitcompiler.so.1", "libnvidia-ptxjitcompiler.so", "/usr/lib/wsl/lib/libnvidia-ptxjitcompiler.so.1"}
}

// usage is what a kernel needs of a multiprocessor, as the compiler reports it.
type usage struct {
	registers, shared, stack, spilled int
}

var (
	entryLine = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	stackLine = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedLine  = regexp.MustCompile(`Used (\d+) registers`)
	smemLine  = regexp.MustCompile(`(\d+) bytes smem`)
)

// parse reads the compiler's report: a few lines for each kernel, the first of which names it.
func parse(report string) map[string]usage {
	found := map[string]usage{}
	var name string
	for line := range strings.Lines(report) {
		u := found[name]
		if m := entryLine.FindStringSubmatch(line); m != nil {
			name = m[1]
			u = found[name]
		}
		if m := stackLine.FindStringSubmatch(line); m != nil {
			u.stack = number(m[1])
			u.spilled = number(m[2]) + number(m[3])
		}
		if m := usedLine.FindStringSubmatch(line); m != nil {
			u.registers = number(m[1])
		}
		if m := smemLine.FindStringSubmatch(line); m != nil {
			u.shared = number(m[1])
		}
		if name != "" {
			found[name] = u
		}
	}
	return found
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// row is one kernel, with its usage by architecture.
type row struct {
	module, kernel string
	usage          []usage
}

// check compiles every module in folder for every architecture.
func check(c *compiler, folder string) ([]row, error) {
	files, err := ptx.Files(folder)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no *%s in %s: %v", ptx.Packed, folder, err)
	}
	var rows []row
	for _, file := range files {
		text, err := ptx.ReadFile(file)
		if err != nil {
			return nil, err
		}
		byKernel := map[string]*row{}
		for _, arch := range architectures {
			report, err := c.run(text, arch)
			if err != nil {
				return nil, fmt.Errorf("%s for %s: %w", file, arch, err)
			}
			for kernel, u := range parse(report) {
				r := byKernel[kernel]
				if r == nil {
					r = &row{module: ptx.Module(file), kernel: kernel}
					byKernel[kernel] = r
				}
				r.usage = append(r.usage, u)
			}
		}
		for _, r := range byKernel {
			rows = append(rows, *r)
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.module+" "+a.kernel, b.module+" "+b.kernel) })
	return rows, nil
}

// problems lists what no kernel should do.
func problems(rows []row) (list []string) {
	for _, r := range rows {
		if len(r.usage) != len(architectures) {
			list = append(list, fmt.Sprintf("%s: the compiler reported %d of %d architectures", r.kernel, len(r.usage), len(architectures)))
			continue
		}
		for i, u := range r.usage {
			if u.spilled > 0 || u.stack > 0 {
				list = append(list, fmt.Sprintf("%s on %s: %d bytes of stack, %d of spills", r.kernel, architectures[i], u.stack, u.spilled))
			}
		}
	}
	return list
}
