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
