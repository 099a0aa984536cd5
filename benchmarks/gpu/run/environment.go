package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// environment is what the machine has, as far as it is not where everybody looks.
type environment struct {
	python string            // that has PyTorch; "" if none has
	torch  func() string     // what that PyTorch says of itself, asked once: the first import reads gigabytes
	vars   map[string]string // for all processes
}

// Folders in which installers leave tools, and containers the driver's libraries.
var (
	toolFolders = []string{"/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/opt/nvidia/nsight-compute/*", "/usr/local/nvidia/bin"}
	libFolders  = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib",
		"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/nvidia/current", "/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib64/nvidia"}
	pythons = []string{"python3", "/usr/bin/python3", "/opt/*/.venv/bin/python3", "/opt/*/bin/python3"}
)

// The driver's libraries: itself, and its compiler of PTX, which it opens by its name when the first kernel is loaded.
const (
	driverName   = "libcuda.so.1"
	compilerName = "libnvidia-ptxjitcompiler.so.1"
)

// surroundings looks around.
func surroundings(ctx context.Context) environment {
	e := environment{vars: map[string]string{"CISTERN_GPU_TESTS": "1", "PYTHONUNBUFFERED": "1", "CUDA_CACHE_MAXSIZE": "4294967296"}}
	if os.Getenv("CUDA_CACHE_PATH") == "" {
		e.vars["CUDA_CACHE_PATH"] = filepath.Join(os.TempDir(), "cistern-cuda-cache")
	}
	e.extend("PATH", existing(toolFolders))
	os.Setenv("PATH", e.vars["PATH"]) // for exec.LookPath
	e.extend("LD_LIBRARY_PATH", compilerFolder(libFolders))
	if e.python = os.Getenv("PYTHON"); e.python == "" {
		e.python = withPyTorch(ctx)
	}
	e.torch = sync.OnceValue(func() string { return torchFacts(e.python) })
	e.library(ctx)
	return e
}

// library makes programs use the cuBLAS that PyTorch uses, if it brings one: then both are compared on the same products. It is named, because
// programs of root load by themselves only what is root's.
func (e *environment) library(ctx context.Context) {
	if os.Getenv("CISTERN_CUBLAS_LIBRARY") != "" || e.python == "" {
		return
	}
	const script = "import importlib.util as u; s = u.find_spec('nvidia'); print('\\n'.join(s.submodule_search_locations if s else []))"
	text, err := ask(ctx, e.python, "-c", script)
	if err != nil {
		return
	}
	var folders []string
	for root := range strings.Lines(text) {
		for _, sub := range []string{"cu13/lib", "cublas/lib"} {
			folders = append(folders, existing([]string{filepath.Join(strings.TrimSpace(root), sub)})...)
		}
	}
	if len(folders) > 0 {
		e.vars["CISTERN_CUBLAS_LIBRARY"] = strings.Join(folders, string(os.PathListSeparator))
	}
}

// extend adds folders to the end of a list of the environment, those that are not in it.
func (e *environment) extend(name string, folders []string) {
	list := filepath.SplitList(os.Getenv(name))
	for _, folder := range folders {
		if !slices.Contains(list, folder) {
			list = append(list, folder)
		}
	}
	if len(list) > 0 {
		e.vars[name] = strings.Join(list, string(os.PathListSeparator))
	}
}

// existing are the folders that the patterns match.
func existing(patterns []string) (folders []string) {
	for _, p := range patterns {
		found, _ := filepath.Glob(p) // the patterns are right
		folders = append(folders, found...)
	}
	return folders
}

// compilerFolder is the first folder that has both the driver and its compiler, so that the driver finds the one beside it: that of the
// driver which the user named, or one of those given.
func compilerFolder(folders []string) []string {
	if file := os.Getenv("CISTERN_CUDA_LIBRARY"); isFile(file) {
		folders = slices.Concat([]string{filepath.Dir(file)}, folders)
	}
	for _, folder := range existing(folders) {
		if isFile(filepath.Join(folder, driverName)) && isFile(filepath.Join(folder, compilerName)) {
			return []string{folder}
		}
	}
	return nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// toolLimit is what a question to a program may take that should answer at once. Tests shorten it.
var toolLimit = 5 * time.Second

// ask is what a program prints, without space around it: some kilobytes at most, and only what can be printed.
func ask(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	return answerOf(ctx, name, args...)
}

// answerOf is ask with a limit of the caller's.
func answerOf(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	group(c)
	c.Cancel = func() error { kill(c); return nil }
	c.WaitDelay = time.Second
	var b beginning
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return strings.TrimSpace(strings.Map(printable, strings.ToValidUTF8(b.text.String(), "?"))), err
}

// beginning keeps the first kilobytes of what is written.
type beginning struct{ text strings.Builder }

func (b *beginning) Write(p []byte) (int, error) {
	b.text.Write(p[:min(len(p), max(0, 4<<10-b.text.Len()))])
	return len(p), nil
}

func printable(r rune) rune {
	if r == '\n' || r == '\t' || unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// withPyTorch is the first Python that has it.
func withPyTorch(ctx context.Context) string {
	for _, pattern := range pythons {
		list := []string{pattern}
		if strings.Contains(pattern, "*") {
			list = existing(list)
		}
		for _, candidate := range list {
			path, err := exec.LookPath(candidate)
			if err != nil {
				continue
			}
			if _, err := ask(ctx, path, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"); err == nil {
				return path
			}
		}
	}
	return ""
}

// environ is for processes.
func (e *environment) environ() []string {
	list := os.Environ()
	for name, value := range e.vars {
		list = append(list, name+"="+value)
	}
	return list
}

// cache is the folder of the driver's compiled kernels.
func (e *environment) cache() string {
	if folder, ok := e.vars["CUDA_CACHE_PATH"]; ok {
		return folder
	}
	return os.Getenv("CUDA_CACHE_PATH")
}
