package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// topLevel are the design's folders.
var topLevel = []string{
	"amp", "autograd", "benchmarks", "device", "docs", "examples", "internal", "kernels", "memory", "tensor",
}

// checkFolders finds top-level folders that the design does not know. What .gitignore names there (/dist/) is not looked at.
func checkFolders(m *Module) (problems []Problem) {
	for _, name := range m.Folders {
		ignored := slices.Contains(strings.Fields(m.Texts[".gitignore"]), "/"+name+"/")
		if !ignored && !slices.Contains(topLevel, name) {
			problems = append(problems, Problem{name + "/", "a folder at the top level that the design does not have",
				"put it below one of " + strings.Join(topLevel, ", ")})
		}
	}
	return problems
}

// checkIndex finds documents in docs that docs/README.md does not link to.
func checkIndex(m *Module) (problems []Problem) {
	const index = "docs/README.md"
	for _, name := range slices.Sorted(maps.Keys(m.Texts)) {
		link, inDocs := strings.CutPrefix(name, "docs/")
		if inDocs && name != index && strings.HasSuffix(name, ".md") && !strings.Contains(m.Texts[index], "]("+link+")") {
			problems = append(problems, Problem{name, "not in " + index, "give it one line there, with a link to " + link})
		}
	}
	return problems
}

// marker is put together so that this file does not match itself.
var marker = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// checkMarkers finds the usual markers of unfinished work in all text files.
func checkMarkers(m *Module) (problems []Problem) {
	for _, name := range slices.Sorted(maps.Keys(m.Texts)) {
		number := 0
		for line := range strings.Lines(m.Texts[name]) {
			number++
			if found := marker.FindString(line); found != "" {
				problems = append(problems, Problem{fmt.Sprintf("%s:%d", name, number), "marker " + found,
					"finish the work, or write the limit into the documentation where users look for it"})
			}
		}
	}
	return problems
}
