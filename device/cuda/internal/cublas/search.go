package cublas

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/cistern-ml/cistern/device/internal/sharedlib"
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
	names, passed = sharedlib.Candidates(LibraryVariable, files, "cublas")
	return names, passed, strings.EqualFold(os.Getenv(LibraryVariable), "off")
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
