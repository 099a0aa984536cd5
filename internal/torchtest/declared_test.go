package torchtest

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the list of declared differences to docs/parity-ops.md")

const (
	parity      = "../../docs/parity-ops.md"
	listHeading = "## What random programs may differ by\n"
	listEnd     = "\n## "
)

// operationsOf are the names in patterns of declarations: of the operation, or of those that the text names.
var operationsOf = regexp.MustCompile(`; (?:through|of|written by)(?:\.\*| \.\*)? ?(.*)$`)

func declaredList() string {
	var b strings.Builder
	b.WriteString(listHeading + "\nThe list `Declared` of [`internal/torchtest`](../internal/torchtest/declared.go), whose patterns say exactly when. Written by `go test ./internal/torchtest -run Declared -update`.\n\n" +
		"| what | of | why |\n|---|---|---|\n")
	for _, x := range Declared {
		names := strings.Trim(x.Op.String(), "^$")
		names = names[1 : len(names)-1]
		if m := operationsOf.FindStringSubmatch(x.Detail.String()); m != nil {
			names = strings.Trim(m[1], " ")
		}
		if names == ".*" {
			names = "any"
		}
		names = strings.NewReplacer("|", "\\|", "`", "").Replace(names)
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", x.Kind, names, strings.ReplaceAll(x.Reason, "|", "\\|"))
	}
	return b.String()
}

// What is declared is documented, and nothing else.
func TestDeclared_IsListedInTheDocs(t *testing.T) {
	text, err := os.ReadFile(parity)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), listHeading)
	require.True(t, ok, "docs/parity-ops.md has no %q", listHeading)
	list, after, ok := strings.Cut(rest, listEnd)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(parity, []byte(before+declaredList()+listEnd+after), 0o644))
		return
	}
	require.Equal(t, declaredList(), listHeading+list, "go test ./internal/torchtest -run Declared -update")
}

// No two declarations are for the same.
func TestDeclared_SaysNothingTwice(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range Declared {
		key := x.Kind + x.Op.String() + x.Detail.String()
		require.False(t, seen[key], key)
		require.NotEmpty(t, x.Reason, key)
		seen[key] = true
	}
}
