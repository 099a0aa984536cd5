package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
)

// checker has the types of the packages so far.
type checker struct {
	fset     *token.FileSet
	sizes    types.Sizes
	packages map[string]*types.Package
}

func newChecker(processor string) *checker {
	return &checker{
		fset: token.NewFileSet(), sizes: types.SizesFor("gc", processor),
		packages: map[string]*types.Package{"unsafe": types.Unsafe},
	}
}

// mostErrors is how many errors all packages together are worth: most are of what the first ones lack.
const mostErrors = 20

func (c *checker) all(packages []*source) error {
	var errs []error
	for _, s := range packages {
		if s.ImportPath != "unsafe" {
			errs = append(errs, c.check(s)...)
		}
		if len(errs) >= mostErrors {
			errs = errs[:mostErrors]
			break
		}
	}
	return errors.Join(errs...)
}

// check adds a package. Of those of others, what their functions do does not matter.
func (c *checker) check(s *source) (errs []error) {
	files, err := c.parse(s)
	if err != nil {
		return []error{err}
	}
	config := types.Config{
		Importer: importing{c, s}, Sizes: c.sizes, IgnoreFuncBodies: !s.own(),
		Error: func(err error) { errs = append(errs, err) },
	}
	if s.Module != nil && s.Module.GoVersion != "" {
		config.GoVersion = "go" + s.Module.GoVersion
	}
	// The error is the first of errs.
	path, _, _ := strings.Cut(s.ImportPath, " ")
	c.packages[s.ImportPath], _ = config.Check(path, c.fset, files, nil)
	if s.own() && len(s.SFiles) == 0 {
		errs = append(errs, c.bodiless(files)...)
	}
	return errs
}

func (c *checker) parse(s *source) (files []*ast.File, err error) {
	mode := parser.SkipObjectResolution
	if s.own() {
		mode |= parser.ParseComments // for linknames
	}
	for _, name := range s.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(s.Dir, name)
		}
		f, err := parser.ParseFile(c.fset, name, nil, mode)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// bodiless finds the functions of a package without assembly that are written nowhere.
func (c *checker) bodiless(files []*ast.File) (errs []error) {
	for _, f := range files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body == nil && !linked(d) {
				errs = append(errs, fmt.Errorf("%s: function %s has no body", c.fset.Position(d.Pos()), d.Name.Name))
			}
		}
	}
	return errs
}

// linked reports whether a function's comment says which function of another package it is.
func linked(d *ast.FuncDecl) bool {
	if d.Doc == nil {
		return false
	}
	for _, line := range d.Doc.List {
		if strings.HasPrefix(line.Text, "//go:linkname "+d.Name.Name+" ") {
			return true
		}
	}
	return false
}

// importing imports for one package: with its tests, what a path stands for can be another package.
type importing struct {
	c *checker
	s *source
}

func (i importing) Import(path string) (*types.Package, error) {
	if to, ok := i.s.ImportMap[path]; ok {
		path = to
	}
	if p := i.c.packages[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("there is no package %s", path)
}
