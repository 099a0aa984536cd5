package examples

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
)

var update = flag.Bool("update", false, "write the tables of operations into docs/parity-ops.md")

// heading begins the part of docs/parity-ops.md that is made from the table of operations.
const heading = "## Every operation with a gradient\n"

// variants are endings of the names of operations that PyTorch has under one name.
var variants = []struct{ ending, text string }{
	{"_scalar_", "`%s_` with a number"},
	{"_scalar", "`%s` with a number"},
	{"_bias", "`%s` with a bias"},
	{"_affine", "`%s` with weight and bias"},
	{"_weight", "`%s` with a weight"},
	{"_packed", "`%s` of operands side by side in one tensor"},
}

// peer is the name in PyTorch.
func peer(op string) string {
	for _, v := range variants {
		if base, ok := strings.CutSuffix(op, v.ending); ok {
			return fmt.Sprintf(v.text, base)
		}
	}
	return "the same"
}

func everyOperation() string {
	var b strings.Builder
	b.WriteString(heading + "\nBy the name under which errors, hooks and autocast know it. Written by `go test ./examples -run ListsEveryOperation -update`.\n\n" +
		"| operation | PyTorch | under autocast |\n|---|---|---|\n")
	for _, op := range autograd.Operations() {
		class, _ := amp.ClassOf(op)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", op, peer(op), class)
	}
	return b.String()
}

func TestParity_ListsEveryOperation(t *testing.T) {
	const file = "../docs/parity-ops.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	doc := string(text)
	want := replaceSection(t, doc, elementwiseHeading, elementwiseTable())
	want = replaceSection(t, want, heading, everyOperation())
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o666))
		return
	}
	require.True(t, doc == want, "the tables of operations are not up to date: run this test with -update")
}

// replaceSection is a document with another section in the place of the one that begins with a heading.
func replaceSection(t *testing.T, doc, heading, section string) string {
	t.Helper()
	before, old, found := strings.Cut(doc, heading)
	require.True(t, found, heading)
	if _, after, more := strings.Cut(old, "\n## "); more {
		section += "\n## " + after
	}
	return before + section
}
