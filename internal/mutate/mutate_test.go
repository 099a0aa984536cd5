package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parsed makes a package of one file of the lines in a function f(a, b int, s string, err error) error, after the declarations.
func parsed(t *testing.T, declarations string, lines ...string) *source {
	t.Helper()
	text := "package p\n" + declarations + "\nfunc f(a, b int, s string, err error) error {\n" + strings.Join(lines, "\n") + "\nreturn nil\n}\n"
	p := &pkg{path: "p", fset: token.NewFileSet(), imports: importer.Default()}
	s := &source{pkg: p, path: "p/p.go", name: "p.go", text: text}
	p.sources = []*source{s}
	var err error
	s.ast, err = parser.ParseFile(p.fset, s.name, text, parser.ParseComments)
	require.NoError(t, err)
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	require.NoError(t, p.check(nil, nil, p.info))
	return s
}

func TestMutants_OfOneLine(t *testing.T) {
	for line, want := range map[string][]string{
		"_ = a < b":                       {"_ = a <= b", "_ = a >= b"},
		"_ = a >= b && b == a":            {"_ = a >= b || b == a", "_ = a > b && b == a", "_ = a < b && b == a", "_ = a >= b && b != a"},
		"_ = a + b":                       {"_ = a - b"},
		"_ = a &^ 3":                      {"_ = a & 3", "_ = a &^ 4", "_ = a &^ 2"},
		"_ = 0":                           {"_ = 1"},
		"_ = 0o644":                       nil,
		"_ = s + s":                       nil,
		"_ = s == s":                      {"_ = s != s"},
		"_ = true":                        {"_ = false"},
		"a += b":                          {"a -= b", ""},
		"s += s":                          {""},
		"a++":                             {""},
		"for a < b { break }":             {"for a <= b { break }", "for a >= b { break }", "for a < b {  }"},
		"for ; a != b; a++ {}":            {"for ; a == b; a++ {}"},
		"if err != nil {}":                {"if err != nil && false {}"},
		"if err == nil {}":                nil,
		"if ok() {}":                      {"if !(ok()) {}"},
		"if a < b {}":                     {"if a <= b {}", "if a >= b {}"},
		"if s == s { return err }":        {"if s != s { return err }", "if s == s { return nil }"},
		"release()":                       {""},
		"defer release()":                 {""},
		"lock.Lock()":                     nil,
		"swap(a, b)":                      {"", "swap(b, a)"},
		"swap(a, a)":                      {""},
		"mixed(a, s)":                     {""},
		"_ = max(a, b)":                   nil,
		`told("%d of %d", a, b)`:          {""},
		`panic(s + "1")`:                  nil,
		"var _ [4]int":                    nil,
		"_ = func() error { return err }": {"_ = func() error { return nil }"},
		"_ = func() (int, bool, error) { return 0, false, err }": {"_ = func() (int, bool, error) { return 0, false, nil }"},
	} {
		s := parsed(t, "func ok() bool {return a[k]}\nfunc release() {}\nfunc swap(_, _ int) {}\nfunc mixed(_ int, _ string) {}\n"+
			"func told(string, ...any) {}\nvar lock l\nvar a []bool\nvar k int\ntype l struct{}\nfunc (l) Lock() {}", line)
		var got []string
		for _, m := range mutantsOf(s) {
			require.Equal(t, line, m.before())
			got = append(got, m.after())
		}
		require.ElementsMatch(t, want, got, line)
	}
}

func TestMutants_LeaveTextForPeopleAlone(t *testing.T) {
	s := parsed(t, "type e struct{}\nfunc (e) Error() string { if 1 < 2 { return \"a\" }; return \"b\" }")
	require.Empty(t, mutantsOf(s))
}

func TestMutant_CompilesOrNot(t *testing.T) {
	s := parsed(t, "", "c := a + b", "_ = c")
	require.True(t, mutantsOf(s)[0].compiles())
	s = parsed(t, "", "var c uint8 = 255", "_ = c")
	require.False(t, mutantsOf(s)[0].compiles(), "256 is no uint8")
	require.True(t, mutantsOf(s)[1].compiles())
}

func tiny(t *testing.T) []*pkg {
	t.Helper()
	packages, err := load(t.Context(), filepath.Join("testdata", "tiny"), []string{"."})
	require.NoError(t, err)
	require.Len(t, packages, 1)
	return packages
}

func TestDraw_IsRepeatableAndTakesALineOnce(t *testing.T) {
	draws := func(n int, seed uint64) (lines []string) {
		drawn, _ := draw(tiny(t), n, rand.New(rand.NewPCG(seed, 0)))
		for _, m := range drawn {
			lines = append(lines, fmt.Sprint(m.line, m.after()))
		}
		return lines
	}
	require.Len(t, draws(3, 1), 3)
	require.Equal(t, draws(3, 1), draws(3, 1))
	require.NotEqual(t, draws(3, 1), draws(3, 2))
	require.Len(t, draws(100, 1), 8, "the lines that have mutants")
}

func TestDraw_TakesFromPackagesByTheirLines(t *testing.T) {
	long, short := parsed(t, "", strings.Split(strings.Repeat("_ = a < b\n", 40), "\n")...), parsed(t, "", "_ = a < b", "_ = a < b", "_ = a < b")
	drawn, _ := draw([]*pkg{long.pkg, short.pkg}, 10, rand.New(rand.NewPCG(1, 0)))
	counts := map[*pkg]int{}
	for _, m := range drawn {
		counts[m.source.pkg]++
	}
	require.Equal(t, map[*pkg]int{long.pkg: 8, short.pkg: 2}, counts)
}

// write writes a file and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.txt")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestReadTests_PutsThePackageFirst(t *testing.T) {
	table, err := readTests(write(t, "# why\na: b c\n\nb:\n"))
	require.NoError(t, err)
	require.Equal(t, tests{folders: []string{"a", "b"}, of: map[string][]string{"a": {"a", "b", "c"}, "b": {"b"}}}, table)
	_, err = readTests(write(t, "a: b\nnothing\n"))
	require.ErrorContains(t, err, "file.txt:2")
}

func TestReadEquivalents_TakesThoseWithAReason(t *testing.T) {
	s := parsed(t, "", "_ = a < b", "a++")
	all := mutantsOf(s)
	known, err := readEquivalents(write(t, "# why\np/p.go\n- _ = a < b\n+ _ = a <= b\n  They are never equal.\n\np/p.go\n- a++\n+\n  Nobody reads it.\n"))
	require.NoError(t, err)
	require.True(t, known.have(all[0]))
	require.False(t, known.have(all[1]))
	require.True(t, known.have(all[2]))
	_, err = readEquivalents(write(t, "p/p.go\n  A reason.\n"))
	require.ErrorContains(t, err, "file.txt:2")
}

func TestLists_NameWhatThereIs(t *testing.T) {
	table, err := readTests("tests.txt")
	require.NoError(t, err)
	for _, folders := range table.of {
		for _, folder := range folders {
			require.DirExists(t, filepath.Join("..", "..", folder))
		}
	}
	known, err := readEquivalents("equivalent.txt")
	require.NoError(t, err)
	for key := range known {
		text, err := os.ReadFile(filepath.Join("..", "..", key[0]))
		require.NoError(t, err)
		require.Contains(t, string(text), key[1], "equivalent.txt: the line is gone from %s", key[0])
	}
}

func TestTry_RunsTheTestsOfMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs tests")
	}
	r, err := newRunner(filepath.Join("testdata", "tiny"), tests{of: map[string][]string{"": {"."}}})
	require.NoError(t, err)
	defer r.close()
	r.baseline["."], r.least = 0, time.Second
	file := filepath.Join("testdata", "tiny", "tiny.go")
	before, err := os.ReadFile(file)
	require.NoError(t, err)

	got := map[string]outcome{}
	want := map[string]outcome{
		"if n > 1 {":   survived, // Sign(1) is not tested
		"if n < 1 {":   killed,
		"return a - b": survived,
		"":             killed, // the step of the loop in Count, which does not end
	}
	for _, m := range mutantsOf(tiny(t)[0].sources[0]) {
		if want[m.after()] != "" {
			got[m.after()], _, err = r.try(t.Context(), m)
			require.NoError(t, err)
		}
	}
	require.Equal(t, want, got)
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

func TestTry_TellsOfTestsThatFailWithout(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs tests")
	}
	r, err := newRunner(filepath.Join("testdata", "tiny"), tests{of: map[string][]string{"": {"none"}}})
	require.NoError(t, err)
	defer r.close()
	_, _, err = r.try(t.Context(), mutantsOf(tiny(t)[0].sources[0])[0])
	require.ErrorContains(t, err, "without a mutant")
}

func TestScore_CountsThoseThatAreNotEquivalent(t *testing.T) {
	var s score
	m := mutantsOf(parsed(t, "", "_ = a + b"))[0]
	for _, o := range []outcome{killed, killed, killed, survived, equivalent} {
		s.add(o, m)
	}
	s.broken, s.left = 5, 6
	var out bytes.Buffer
	s.print(&out)
	require.Contains(t, out.String(), "p/p.go:4 (operator)\n    - _ = a + b\n    + _ = a - b\n")
	require.Contains(t, out.String(), "3 killed, 1 survived, 1 known to be equivalent, 5 not compiled, 6 not begun in time: 75.0 % killed")
}
