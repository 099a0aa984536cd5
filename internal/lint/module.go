package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Problem is something that a check found.
type Problem struct {
	Where  string // file and line, or only a path, with slashes and relative to the module's root
	What   string
	Remedy string
}

// String returns the problem on one line.
func (p Problem) String() string {
	return fmt.Sprintf("%s: %s. Remedy: %s.", p.Where, p.What, p.Remedy)
}

// File is a Go file of the module.
type File struct {
	Path string // relative to the module's root, with slashes
	Test bool   // a _test.go file, or a file of a package of test helpers: one whose folder's name ends in "test"
	AST  *ast.File
	fset *token.FileSet
}

// Module is the source of a module.
type Module struct {
	Path    string            // as in go.mod
	Folders []string          // the top-level folders
	Files   []*File           // all Go files, those that this platform does not build included
	Texts   map[string]string // content of all text files by path, Go files included
}

// textual are the file name endings of text that people write.
var textual = []string{
	".go", ".md", ".txt", ".s", ".h", ".cu", ".cuh", ".c", ".cc", ".cpp", ".sh", ".py", ".yml", ".yaml", ".mod",
	"Makefile", ".gitignore", ".ci/run",
}

// Load reads the module whose go.mod lies in dir or the nearest folder above it.
func Load(dir string) (*Module, error) {
	root, err := findRoot(dir)
	if err != nil {
		return nil, err
	}
	m := &Module{Texts: map[string]string{}}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return m.folder(name, filepath.ToSlash(rel))
		}
		return m.file(name, filepath.ToSlash(rel))
	})
	if err != nil {
		return nil, err
	}
	m.Path = modulePath(m.Texts["go.mod"])
	return m, nil
}

// findRoot returns dir or the nearest folder above it that has a go.mod.
func findRoot(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := start; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("lint: no go.mod in %s or above", start)
		}
	}
}

// modulePath returns the path that a go.mod declares.
func modulePath(mod string) string {
	for line := range strings.Lines(mod) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// folder notes a folder of the top level, and skips those in which the go command sees no packages of this module. The
// scripts of .ci are read all the same.
func (m *Module) folder(name, rel string) error {
	base := path.Base(rel)
	if rel == "." || rel == ".ci" {
		return nil
	}
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	if !strings.Contains(rel, "/") {
		m.Folders = append(m.Folders, rel)
	}
	return nil
}

// file reads a file if it is text, and parses it if it is Go.
func (m *Module) file(name, rel string) error {
	if !slices.ContainsFunc(textual, func(end string) bool { return strings.HasSuffix(rel, end) }) {
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	m.Texts[rel] = string(text)
	if !strings.HasSuffix(rel, ".go") {
		return nil
	}
	f, err := parse(rel, string(text))
	if err != nil {
		return err
	}
	m.Files = append(m.Files, f)
	return nil
}

// parse makes a File of a source text.
func parse(rel, text string) (*File, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	test := strings.HasSuffix(rel, "_test.go") || strings.HasSuffix(path.Dir(rel), "test")
	return &File{Path: rel, Test: test, AST: tree, fset: fset}, nil
}

// problem returns a Problem at a node of the file.
func (f *File) problem(at ast.Node, remedy, format string, values ...any) Problem {
	return Problem{
		Where:  fmt.Sprintf("%s:%d", f.Path, f.line(at.Pos())),
		What:   fmt.Sprintf(format, values...),
		Remedy: remedy,
	}
}

func (f *File) line(p token.Pos) int { return f.fset.Position(p).Line }

// pkg is the folder of the file's package.
func (f *File) pkg() string { return path.Dir(f.Path) }

// isTestFile reports whether only go test compiles the file. Packages of test helpers are libraries too: they are Test,
// but not this.
func isTestFile(f *File) bool { return strings.HasSuffix(f.Path, "_test.go") }

// library reports whether the file is part of a package that programs import: not a program itself, nor one of the
// folders that show and measure.
func (f *File) library() bool {
	return f.AST.Name.Name != "main" && !matches("examples/...", f.pkg()) && !matches("benchmarks/...", f.pkg())
}
