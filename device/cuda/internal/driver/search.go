package driver

import (
	"os"
	"path/filepath"
)

// LibraryVariable is the environment variable that says which library to open: a file, or folders, separated as in PATH.
// Nothing else is tried then.
const LibraryVariable = "CISTERN_CUDA_LIBRARY"

// candidates are the libraries to try, in this order: what LibraryVariable says, or else the plain name, which the system's
// loader looks up (LD_LIBRARY_PATH, ldconfig; System32 on Windows), and the folders where distributions hide the driver. The
// toolkit's folders are not among them: they have a stub of the same name.
func candidates() []string {
	if set := os.Getenv(LibraryVariable); set != "" {
		return chosen(set)
	}
	if libraryName == "" {
		return nil
	}
	names := []string{libraryName}
	for _, dir := range libraryFolders {
		if file := filepath.Join(dir, libraryName); isFile(file) {
			names = append(names, file)
		}
	}
	return names
}

// chosen are the candidates that the value of LibraryVariable names.
func chosen(value string) (names []string) {
	for _, entry := range filepath.SplitList(value) {
		if info, err := os.Stat(entry); err == nil && info.IsDir() && libraryName != "" {
			entry = filepath.Join(entry, libraryName)
		}
		if entry != "" {
			names = append(names, entry)
		}
	}
	return names
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
