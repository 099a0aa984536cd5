// Package examples holds whole programs, each in a folder of its own, and the code that documents show.
package examples

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestREADME_ShowsAProgramAsItIs(t *testing.T) {
	source, err := os.ReadFile("quickstart/main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+string(source)+"```\n")
}
