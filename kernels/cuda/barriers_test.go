package cuda_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// barrierCall is what the emulator takes for a barrier.
var barrierCall = regexp.MustCompile(`\b(__syncthreads(_count|_or|_and)?|__syncwarp|gk_cp_async_wait(_warp)?\s*<[^>]*>)\s*\(`)

// place is a line of a source.
type place struct {
	file string
	line int
}

func (p place) is(b fakecuda.Barrier) bool { return p == place{b.File, b.Line} }

// barriersOf finds the barriers in the text of all sources, with their lines.
func barriersOf(t *testing.T) map[place]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("src", "*"))
	require.NoError(t, err)
	found := map[place]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		macro := false
		for i, line := range strings.Split(string(data), "\n") {
			code, _, _ := strings.Cut(line, "//")
			macro = macro || strings.HasPrefix(strings.TrimSpace(code), "#define")
			at := place{filepath.Base(file), i + 1}
			if n := len(barrierCall.FindAllString(code, -1)); n > 0 {
				require.Equal(t, 1, n, "%v: a line has one barrier at most, by which it is known", at)
				require.False(t, macro, "%v: a barrier of a macro is on no line of its own: put it into a function", at)
				found[at] = strings.TrimSpace(code)
			}
			macro = macro && strings.HasSuffix(strings.TrimSpace(line), `\`)
		}
	}
	return found
}

func TestBarriers_HaveLinesOfTheirOwnOutsideOfMacros(t *testing.T) {
	require.NotEmpty(t, barriersOf(t))
}

// barrierTable is barriers.md, with lines of others in between.
func barrierTable(by map[fakecuda.Barrier]caught, texts map[place]string, others []string) string {
	var b strings.Builder
	b.WriteString("# Barriers\n\n" +
		"Each barrier of each kernel was taken out, by itself, and the cases of kerneltest that come to it were run on the emulated\n" +
		"driver until one failed: in order (run to barrier), then greedy. This table is written by\n\n" +
		"\tCISTERN_MUTATION=1 go test ./kernels/cuda -run Mutation -write-barriers\n\n" +
		"which fails for a barrier that nothing misses or comes to; `.ci/run mutation` runs it.\n\n" +
		"| place | barrier | kernels | missed in order | only when greedy | for instance by |\n|---|---|---|---|---|---|\n")
	rows := map[place][]fakecuda.Barrier{}
	for at := range by {
		p := place{at.File, at.Line}
		rows[p] = append(rows[p], at)
	}
	order := func(a, b place) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	}
	for _, p := range slices.SortedFunc(maps.Keys(rows), order) {
		for len(others) > 0 && others[0] < "| "+p.file {
			b.WriteString(others[0] + "\n")
			others = others[1:]
		}
		kernels := slices.SortedFunc(slices.Values(rows[p]), compareBarriers)
		greedy := 0
		for _, k := range kernels {
			if by[k].schedule.greedy {
				greedy++
			}
		}
		name := kernels[0].Kernel
		if n := len(kernels); n > 1 {
			name = fmt.Sprintf("%d: %s ... %s", n, name, kernels[n-1].Kernel)
		}
		fmt.Fprintf(&b, "| %s:%d | `%s` | %s | %d | %d | %s |\n", p.file, p.line, barrierCall.FindString(texts[p])+")", name,
			len(kernels)-greedy, greedy, by[kernels[0]].user)
	}
	for _, line := range others {
		b.WriteString(line + "\n")
	}
	return b.String()
}
