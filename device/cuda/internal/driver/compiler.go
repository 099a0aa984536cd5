package driver

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// The driver compiles PTX with a library of its own package, which it opens by the plain name when the first PTX is loaded. Where
// the driver was found in a folder that the system's loader does not search (see search.go), the loader does not find the compiler
// either, and the load ends with JITCompilerNotFound. But it takes a library of that name that is open already.

// compiler is the library's name, on Linux. Elsewhere the driver finds it by itself.
const compiler = "libnvidia-ptxjitcompiler.so.1"

// underCompiler are patterns of the libraries that the compiler opens or needs, those that need none first. Which of them there are
// depends on the driver's version.
var underCompiler = []string{"libnvidia-gpucomp.so*", "libnvidia-nvvm70.so.4", "libnvidia-nvvm.so.4"}

// OpenCompiler opens the compiler that lies beside the driver library, for the rest of the process, and returns its file. The error
// names the folders that have none.
func (l *Library) OpenCompiler() (file string, err error) {
	folders := l.folders()
	for _, dir := range folders {
		if file = filepath.Join(dir, compiler); !isFile(file) {
			continue
		}
		for _, pattern := range underCompiler {
			for _, path := range matches(filepath.Join(dir, pattern)) {
				_, _ = OpenLibrary(path) // if it is needed and does not open, the compiler says so
			}
		}
		_, err = OpenLibrary(file)
		return file, err
	}
	if len(folders) == 0 {
		return "", fmt.Errorf("the folder of %s is not known", l.path)
	}
	return "", fmt.Errorf("there is no %s in %s", compiler, strings.Join(folders, " or "))
}

// folders are where the driver library lies: as it was named, if it was by a path, and as the system resolved that.
func (l *Library) folders() (dirs []string) {
	for _, file := range []string{l.path, fileAt(l.funcs[Init])} {
		if dir := filepath.Dir(file); filepath.IsAbs(file) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// CompilerHint says what a user can do who got JITCompilerNotFound after OpenCompiler returned file and err, or before.
func CompilerHint(file string, err error) string {
	if err == nil {
		return fmt.Sprintf("the driver does not find its PTX compiler, though it was opened as %s: start the program with LD_LIBRARY_PATH=%s",
			file, filepath.Dir(file))
	}
	return fmt.Sprintf("the driver's PTX compiler, %s, is not where the system's loader searches, and cannot be opened beside the driver (%v): "+
		"start the program with LD_LIBRARY_PATH set to its folder, or install the package of the driver that has it; "+
		"in a container, start that with NVIDIA_DRIVER_CAPABILITIES=compute,utility", compiler, err)
}

func matches(pattern string) []string {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil // a folder with a bracket in its name
	}
	return paths
}
