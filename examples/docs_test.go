package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// codeOf finds the blocks of code that a document says to stand in a file.
var codeOf = regexp.MustCompile("(?s)In \\[`[^`]+`\\]\\(\\.\\./([^)]+)\\):\n\n```[a-z+]+\n(.*?)\n```\n")

func TestAddingAnOp_ShowsCodeAsItIsInTheTree(t *testing.T) {
	doc, err := os.ReadFile("../docs/adding-an-op.md")
	require.NoError(t, err)
	blocks := codeOf.FindAllStringSubmatch(string(doc), -1)
	require.Len(t, blocks, strings.Count(string(doc), "```")/2, "each block says where it stands")
	for _, b := range blocks {
		source, err := os.ReadFile(filepath.Join("..", b[1]))
		require.NoError(t, err)
		require.True(t, strings.Contains(string(source), b[2]), "%s does not have this:\n%s", b[1], b[2])
	}
}
