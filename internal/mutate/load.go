package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// source is a Go file that is no test.
type source struct {
	pkg  *pkg
	path string // relative to the module's root, with slashes
	name string // on this system
	text string
	ast  *ast.File
}

// pkg is a package with the types of its expressions.
type pkg struct {
	folder  string // relative to the module's root, with slashes
	path    string // as imported
	sources []*source
	fset    *token.FileSet
	info    *types.Info
	imports types.Importer
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Module                  *struct{ Path string }
}

// load parses the packages in folders of the module at root, and checks their types.
func load(ctx context.Context, root string, folders []string) ([]*pkg, error) {
	patterns := make([]string, len(folders))
	for i, f := range folders {
		patterns[i] = "./" + strings.TrimPrefix(f, "./")
	}
	all, err := list(ctx, root, patterns)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, l := range all {
		exports[l.ImportPath] = l.Export
	}
	var packages []*pkg
	for _, l := range all {
		if l.DepOnly {
			continue
		}
		p, err := read(l, exports)
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// list asks the go command for packages and all that they import.
func list(ctx context.Context, root string, patterns []string) (all []listed, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-export", "-deps",
		"-json=ImportPath,Dir,Export,GoFiles,DepOnly,Module"}, patterns...)...)
	cmd.Dir = root
	var failure bytes.Buffer
	cmd.Stderr = &failure
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, failure.Bytes())
	}
	for d := json.NewDecoder(bytes.NewReader(output)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, l)
	}
}

// read parses a package's files; exports has the compiler's files of all packages.
func read(l listed, exports map[string]string) (*pkg, error) {
	p := &pkg{path: l.ImportPath, fset: token.NewFileSet()}
	if l.Module != nil {
		p.folder = strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, l.Module.Path), "/")
	}
	p.imports = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, file := range l.GoFiles {
		s := &source{pkg: p, path: path.Join(p.folder, file), name: filepath.Join(l.Dir, file)}
		text, err := os.ReadFile(s.name)
		if err != nil {
			return nil, err
		}
		s.text = string(text)
		if s.ast, err = parser.ParseFile(p.fset, s.name, text, parser.ParseComments); err != nil {
			return nil, err
		}
		p.sources = append(p.sources, s)
	}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	return p, p.check(nil, nil, p.info)
}

// check checks the package's types, with another tree in the place of one source's.
func (p *pkg) check(replaced *source, by *ast.File, info *types.Info) error {
	files := make([]*ast.File, len(p.sources))
	for i, s := range p.sources {
		if files[i] = s.ast; s == replaced {
			files[i] = by
		}
	}
	config := types.Config{Importer: p.imports}
	_, err := config.Check(p.path, p.fset, files, info)
	return err
}

// compiles reports whether the package with the mutant does.
func (m *mutant) compiles() bool {
	p := m.source.pkg
	tree, err := parser.ParseFile(p.fset, m.source.name, m.content(), parser.SkipObjectResolution)
	return err == nil && p.check(m.source, tree, nil) == nil
}

// lines counts those that are not empty.
func (p *pkg) lines() (n int) {
	for _, s := range p.sources {
		for line := range strings.Lines(s.text) {
			if strings.TrimSpace(line) != "" {
				n++
			}
		}
	}
	return n
}
