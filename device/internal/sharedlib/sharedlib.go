// Package sharedlib finds libraries of NVIDIA's that are loaded at run time, in the places where systems, toolkits and Python's packages put them.
package sharedlib

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// Candidates are the files of a library to try, best first, and those that are passed over, each with the reason. files are its names, wheel
// the folder of its Python package. If the environment variable is set, they are what it names: a file, or folders, separated as in PATH.
func Candidates(variable string, files []string, wheel string) (names, passed []string) {
	if set := os.Getenv(variable); set != "" {
		return chosen(set, files), nil
	}
	if len(files) == 0 {
		return nil, nil
	}
	if runtime.GOOS != "windows" {
		names = append(names, files...) // LD_LIBRARY_PATH, ldconfig
	}
	dirs := folders(wheel)
	for _, file := range files {
		for _, dir := range dirs {
			path := filepath.Join(dir, file)
			if !isFile(path) || slices.Contains(names, path) {
				continue
			}
			if why := distrust(path, os.Geteuid()); why != "" {
				passed = append(passed, fmt.Sprintf("%s is passed over: %s; to use it, name it in %s", path, why, variable))
				continue
			}
			names = append(names, path)
		}
	}
	if len(names) == 0 {
		return files, passed // so that the error names something
	}
	return names, passed
}

// chosen are the candidates that a variable's value names.
func chosen(value string, files []string) (names []string) {
	for _, entry := range filepath.SplitList(value) {
		if info, err := os.Stat(entry); err != nil || !info.IsDir() {
			names = append(names, entry)
			continue
		}
		for _, file := range files {
			names = append(names, filepath.Join(entry, file))
		}
	}
	return names
}

// folders are where toolkits, distributions and Python's packages put libraries.
func folders(wheel string) (dirs []string) {
	inside := []string{"lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "bin/x64", "bin"}
	for _, variable := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if home := absolute(variable); home != "" {
			for _, sub := range inside {
				dirs = append(dirs, filepath.Join(home, sub))
			}
		}
	}
	if runtime.GOOS == "windows" {
		return dirs
	}
	toolkits := matches("/usr/local/cuda-*")
	slices.Reverse(toolkits)
	for _, home := range append([]string{"/usr/local/cuda"}, toolkits...) {
		dirs = append(dirs, filepath.Join(home, "lib64"))
	}
	dirs = append(dirs, "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
	return append(dirs, pythonFolders(wheel)...)
}

// pythonFolders are where wheels such as nvidia-cublas-cu12 (wheel cublas) and nvidia-cublas, on which PyTorch's depend, have their libraries.
func pythonFolders(wheel string) (dirs []string) {
	var roots []string
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := absolute(variable); root != "" {
			roots = append(roots, filepath.Join(root, "lib/python3*/site-packages"))
			dirs = append(dirs, filepath.Join(root, "lib"))
		}
	}
	if home := absolute("HOME"); home != "" {
		roots = append(roots, filepath.Join(home, ".local/lib/python3*/site-packages")) // pip install --user
	}
	roots = append(roots, "/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages", "/usr/lib/python3*/site-packages")
	for _, root := range roots {
		dirs = append(dirs, matches(filepath.Join(root, "nvidia/cu13/lib"))...)
		dirs = append(dirs, matches(filepath.Join(root, "nvidia", wheel, "lib"))...)
	}
	return dirs
}

// absolute is the folder that a variable names. A relative one would be looked for in whatever folder the process happens to be in.
func absolute(variable string) string {
	if value := os.Getenv(variable); filepath.IsAbs(value) {
		return value
	}
	return ""
}

// matches are the paths of a pattern, in order of their names.
func matches(pattern string) []string {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil // a variable with a bracket in it
	}
	return paths
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
