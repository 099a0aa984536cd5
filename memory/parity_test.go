package memory

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The document that names our counterpart of each of PyTorch's tests must not name tests that do not exist.
func TestParity_NamesTestsThatExist(t *testing.T) {
	document, err := os.ReadFile("../docs/parity.md")
	require.NoError(t, err)
	sources := testSources(t, "..")
	names := regexp.MustCompile(`\b(Test|Fuzz|Example)\w*_\w+|\bFuzz[A-Z]\w+`).FindAllString(string(document), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.Contains(t, sources, "func "+name+"(", "docs/parity.md names %s", name)
	}
}

// testSources returns all test files of the module, one behind the other.
func testSources(t *testing.T, root string) string {
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}
		return nil
	}))
	return all.String()
}
