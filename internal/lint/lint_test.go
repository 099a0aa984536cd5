package lint

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// perFile are the checks that look at one file at a time.
var perFile = map[string]func(*File) []Problem{
	"documents what it exports":             checkDocs,
	"imports packages under a name":         checkDotImports,
	"frees without finalizers":              checkFinalizers,
	"does not sleep in tests":               checkSleeps,
	"prints nothing from libraries":         checkPrints,
	"has atomic types, not atomic calls":    checkAtomics,
	"panics only for invariants of its own": checkPanics,
}

// perModule are the checks that need all files.
var perModule = map[string]func(*Module) []Problem{
	"imports only downwards":            checkImports,
	"says what each package is for":     checkPackageDocs,
	"uses unsafe only where it must":    func(m *Module) []Problem { return checkUnsafe(m, unsafeList) },
	"has the design's folders":          checkFolders,
	"lists every document":              checkIndex,
	"has no marker of unfinished work":  checkMarkers,
	"is found by the walk of this test": checkWalk,
}

func TestModule(t *testing.T) {
	m, err := Load(".")
	require.NoError(t, err)
	for name, check := range perFile {
		t.Run(name, func(t *testing.T) {
			for _, f := range m.Files {
				report(t, check(f))
			}
		})
	}
	for name, check := range perModule {
		t.Run(name, func(t *testing.T) { report(t, check(m)) })
	}
}

func report(t *testing.T, problems []Problem) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// checkWalk notices when Load misses what it should read: then every check above would pass.
func checkWalk(m *Module) (problems []Problem) {
	known := map[string]bool{}
	for _, f := range m.Files {
		known[f.Path] = true
	}
	for _, name := range []string{"device/device.go", "memory/doc.go", "internal/lint/lint_test.go"} {
		if !known[name] {
			problems = append(problems, Problem{name, "not read", "mend Load"})
		}
	}
	for _, name := range []string{"go.mod", ".ci/run", ".gitignore", "Makefile"} {
		if m.Texts[name] == "" {
			problems = append(problems, Problem{name, "not read", "mend Load"})
		}
	}
	return problems
}

// source makes a File of lines of Go.
func source(t *testing.T, path string, lines ...string) *File {
	t.Helper()
	f, err := parse(path, strings.Join(lines, "\n")+"\n")
	require.NoError(t, err)
	return f
}

// where returns what the problems point at.
func where(problems []Problem) (places []string) {
	for _, p := range problems {
		places = append(places, p.Where)
	}
	return places
}

func TestProblem_SaysWhereWhatAndRemedy(t *testing.T) {
	p := source(t, "a/b.go", "package b", "", "type T int").problem(source(t, "a/b.go", "package b", "type T int").AST.Decls[0],
		"do this", "%s is wrong", "T")
	require.Equal(t, "a/b.go:2: T is wrong. Remedy: do this.", p.String())
}

func TestLoad_FindsTheModuleFromAnyFolder(t *testing.T) {
	here, err := Load(".")
	require.NoError(t, err)
	root, err := Load("../..")
	require.NoError(t, err)
	require.Equal(t, "github.com/cistern-ml/cistern", here.Path)
	require.Equal(t, len(root.Files), len(here.Files))
	require.Contains(t, here.Folders, "internal")
	require.NotContains(t, here.Folders, ".git")
}

func TestLoad_FailsOutsideAModule(t *testing.T) {
	_, err := Load(t.TempDir())
	require.ErrorContains(t, err, "no go.mod")
}
