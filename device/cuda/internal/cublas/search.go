package cublas

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// LibraryVariable is the environment variable that says which cuBLAS to use: a file, or folders, separated as in PATH; nothing
// else is tried then. "off" is for none.
const LibraryVariable = "CISTERN_CUBLAS_LIBRARY"

// majors are the versions of the library, newest first.
var majors = []int{13, 12, 11}

// candidates are the libraries to try, best first, and those that are passed over, each with the reason. What the user names in
// LibraryVariable is tried wherever it is.
func candidates(driverVersion int) (names, passed []string, off bool) {
	files := fileNames(driverVersion)
	if set := os.Getenv(LibraryVariable); set != "" {
		return chosen(set, files), nil, strings.EqualFold(set, "off")
	}
	if len(files) == 0 {
		return nil, nil, false
	}
	if runtime.GOOS != "windows" {
		names = append(names, files...) // LD_LIBRARY_PATH, ldconfig
	}
	dirs := folders()
	for _, file := range files {
		for _, dir := range dirs {
			path := filepath.Join(dir, file)
			if !isFile(path) || slices.Contains(names, path) {
				continue
			}
			if why := distrust(path, os.Geteuid()); why != "" {
				passed = append(passed, fmt.Sprintf("%s is passed over: %s; to use it, name it in %s", path, why, LibraryVariable))
				continue
			}
			names = append(names, path)
		}
	}
	if len(names) == 0 {
		return files, passed, false // so that the error names something
	}
	return names, passed, false
}

// fileNames are the library's names in the versions that the driver can run.
func fileNames(driverVersion int) (names []string) {
	pattern := map[string]string{"linux": "libcublas.so.%d", "windows": "cublas64_%d.dll"}[runtime.GOOS]
	for _, major := range majors {
		if pattern != "" && (driverVersion == 0 || driverVersion >= 1000*major) {
			names = append(names, fmt.Sprintf(pattern, major))
		}
	}
	return names
}

// chosen are the candidates that the value of LibraryVariable names.
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

// folders are where toolkits, distributions and Python's packages put the library.
func folders() (dirs []string) {
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
	return append(dirs, pythonFolders()...)
}

// pythonFolders are where the wheels nvidia-cublas-cu12 and nvidia-cublas, on which PyTorch's depend, have the library.
func pythonFolders() (dirs []string) {
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
		dirs = append(dirs, matches(filepath.Join(root, "nvidia/cublas/lib"))...)
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
