package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// source is a package as the go command builds it; a package under test is another one, with its tests.
type source struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	SFiles     []string
	ImportMap  map[string]string
	Module     *struct {
		Main      bool
		GoVersion string
	}
}

// own reports whether the package is one of the module that is checked.
func (s *source) own() bool { return s.Module != nil && s.Module.Main }

// list gives all packages of a folder's module, their tests and what they import, each after what it imports itself.
func list(dir, system, processor string) (all []*source, err error) {
	c := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,SFiles,ImportMap,Module", "./...")
	c.Dir = dir
	c.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		s := new(source)
		if err := d.Decode(s); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(s.ImportPath, ".test") { // the main function of tests is generated
			all = append(all, s)
		}
	}
}
