package ptx

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/cistern-ml/cistern/internal/lzma"
)

// Packed is how the names of files of packed PTX end.
const Packed = ".ptx.lzma"

// ReadFile is the PTX of a file, which may be packed.
func ReadFile(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil || !strings.HasSuffix(name, Packed) {
		return text, err
	}
	return lzma.Unpack(text)
}

// Files are the modules of a folder, packed or not.
func Files(folder string) ([]string, error) { return filepath.Glob(filepath.Join(folder, "*.ptx*")) }

// Module is the name of a file's module.
func Module(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ptx")
	return name
}
