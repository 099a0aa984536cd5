package userframe

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLibrary_IsWhatUsersImport(t *testing.T) {
	_, here, _, _ := runtime.Caller(0)
	root := strings.TrimSuffix(here, "internal/userframe/userframe_test.go")
	for file, want := range map[string]bool{
		root + "autograd/nn/linear.go":     true,
		root + "memory/caching.go":         true,
		root + "memory/caching_test.go":    false,
		root + "examples/gpt/main.go":      false,
		"/somewhere/else/autograd/main.go": false,
		"/usr/lib/go/src/runtime/proc.go":  false,
		"":                                 false,
	} {
		require.Equal(t, want, Library(file), file)
	}
}

func TestCut_KeepsTheProgramsFramesAndTheEndsOfTheLibrarys(t *testing.T) {
	_, here, _, _ := runtime.Caller(0)
	root := strings.TrimSuffix(here, "internal/userframe/userframe_test.go")
	stack := func(names string) (list []runtime.Frame) {
		for _, name := range strings.Fields(names) {
			file := "/home/user/main.go"
			if strings.HasPrefix(name, "lib") {
				file = root + "autograd/nn/linear.go"
			}
			list = append(list, runtime.Frame{Function: name, File: file})
		}
		return list
	}
	for before, after := range map[string]string{
		"":                                 "",
		"lib1":                             "lib1",
		"lib1 lib2":                        "lib1 lib2",
		"lib1 lib2 lib3 lib4":              "lib1 lib4",
		"lib1 lib2 lib3 main":              "lib1 lib3 main",
		"forward lib1 lib2 lib3 step main": "forward lib1 lib3 step main",
		"lib1 lib2 lib3 forward lib4 lib5 lib6 main": "lib1 lib3 forward lib4 lib6 main",
	} {
		var names []string
		for _, f := range Cut(stack(before)) {
			names = append(names, f.Function)
		}
		require.Equal(t, after, strings.Join(names, " "), before)
	}
}
