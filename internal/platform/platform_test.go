package platform

import (
	"go/build/constraint"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// supported are the systems on which all packages compile: those that .ci/run builds for.
var supported = []string{
	"linux/amd64", "linux/arm64", "linux/riscv64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64",
}

func TestUnsupported_IsEveryOtherSystemOfGo(t *testing.T) {
	source, err := os.ReadFile("unsupported.go")
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(source), "\n")
	unsupported, err := constraint.Parse(line)
	require.NoError(t, err)

	list, err := exec.Command("go", "tool", "dist", "list").Output()
	require.NoError(t, err)
	var compiles []string
	for system := range strings.FieldsSeq(string(list)) {
		os, arch, _ := strings.Cut(system, "/")
		also := map[string]string{"android": "linux", "ios": "darwin"}[os] // Go sets these tags too
		if !unsupported.Eval(func(tag string) bool { return tag == os || tag == arch || tag == also }) {
			compiles = append(compiles, system)
		}
	}
	require.ElementsMatch(t, supported, compiles)
}

func TestCI_BuildsForWhatIsSupported(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	require.NoError(t, err)
	for line := range strings.Lines(string(script)) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "targets="); ok {
			require.ElementsMatch(t, supported, strings.Fields(strings.Trim(list, `"`)))
			return
		}
	}
	t.Fatal("no line with the targets")
}

func TestREADME_NamesWhatIsSupported(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "Linux (amd64, arm64, riscv64), macOS (arm64, amd64) and Windows (amd64, arm64)")
}
