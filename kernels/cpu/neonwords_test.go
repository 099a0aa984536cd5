package cpu

import (
	"debug/elf"
	little "encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wordLine is an instruction that the assembler of Go has no name for, and what it stands for.
var wordLine = regexp.MustCompile(`(?m)^\tWORD \$(0x[0-9a-f]{8}) // (.*)$`)

// TestNEON_WordsAreTheInstructionsThatTheyStandFor compares what the generator writes with an assembler of another origin, on every processor.
func TestNEON_WordsAreTheInstructionsThatTheyStandFor(t *testing.T) {
	clang, err := exec.LookPath("clang-19")
	if err != nil {
		t.Skip("NO clang-19: the words of assembly for arm64 are not compared with its assembler")
	}
	files, err := filepath.Glob("*_neon_arm64.s")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := wordLine.FindAllStringSubmatch(string(text), -1)
		require.Equal(t, strings.Count(string(text), "WORD"), len(lines), "lines of %s that this test does not know", file)
		var source strings.Builder
		source.WriteString(".text\n")
		for _, m := range lines {
			source.WriteString(m[2] + "\n")
		}
		code := assembled(t, clang, source.String())
		require.Len(t, code, 4*len(lines))
		for i, m := range lines {
			require.Equal(t, fmt.Sprintf("%#08x", little.LittleEndian.Uint32(code[4*i:])), m[1], "%s: %s", file, m[2])
		}
	}
}

// assembled is the code that an assembler makes of instructions for arm64.
func assembled(t *testing.T, clang, source string) []byte {
	in, out := filepath.Join(t.TempDir(), "words.s"), filepath.Join(t.TempDir(), "words.o")
	require.NoError(t, os.WriteFile(in, []byte(source), 0o600))
	text, err := exec.Command(clang, "--target=aarch64-linux-gnu", "-c", in, "-o", out).CombinedOutput()
	require.NoError(t, err, "%s", text)
	f, err := elf.Open(out)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	code, err := f.Section(".text").Data()
	require.NoError(t, err)
	return code
}
