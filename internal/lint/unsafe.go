package lint

import (
	_ "embed"
	"path"
	"slices"
	"strings"
)

// unsafePlaces are where package unsafe may be used at all: where an address becomes memory. One file of each package
// does it for all others; the folders of devices, which call the system, may have several.
var unsafePlaces = []string{"device/...", "kernels/cpu/...", "kernels/cuda/...", "internal/rawbytes", "internal/fpstack", "tensor"}

//go:embed unsafe_files.txt
var unsafeList string

// unsafeFiles returns the lines of the list that name a file.
func unsafeFiles(list string) (files []string) {
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			files = append(files, line)
		}
	}
	return files
}

// checkUnsafe compares the files that import unsafe with the list, both ways. Tests in the places above are free.
func checkUnsafe(m *Module, list string) (problems []Problem) {
	const file = "internal/lint/unsafe_files.txt"
	listed := unsafeFiles(list)
	uses := map[string]bool{}
	for _, f := range m.Files {
		if f.importName("unsafe") == "" {
			continue
		}
		uses[f.Path] = true
		if slices.Contains(listed, f.Path) || isTestFile(f) && inUnsafePlace(f.pkg()) {
			continue
		}
		problems = append(problems, f.problem(f.AST.Name,
			"use what the package's listed file offers, or, in "+strings.Join(unsafePlaces, ", ")+", list this one in "+file,
			"imports unsafe"))
	}
	seen := map[string]string{}
	for _, name := range listed {
		pkg := path.Dir(name)
		switch {
		case !uses[name]:
			problems = append(problems, Problem{file, name + " does not exist or does not import unsafe", "remove the line"})
		case !inUnsafePlace(pkg):
			problems = append(problems, Problem{file, name + " lies outside " + strings.Join(unsafePlaces, ", "),
				"move the code there, behind a safe function"})
		case seen[pkg] != "" && !matches("device/...", pkg):
			problems = append(problems, Problem{file, name + " is the second file of its package, after " + seen[pkg],
				"keep a package's unsafe code in one file"})
		}
		seen[pkg] = name
	}
	return problems
}

func inUnsafePlace(pkg string) bool {
	return slices.ContainsFunc(unsafePlaces, func(p string) bool { return matches(p, pkg) })
}
