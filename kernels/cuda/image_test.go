package cuda

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/fulltests"
)

// variable is what a module declares outside of its kernels.
type variable struct{ name, line string }

var declaration = regexp.MustCompile(`(?m)^\.(?:weak|global|shared|visible|extern).* \.b\d+ (\S+?)\[.*;`)

func variables(t *testing.T, module string) (all []variable) {
	text, err := textOf(module)
	require.NoError(t, err)
	for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
		all = append(all, variable{m[1], m[0]})
	}
	return all
}

// Cutting loses nothing: every kernel of every module is there once, and names no variable that is left out.
func TestImage_HasEachKernelOfEachModule(t *testing.T) {
	for module, names := range modules {
		im, err := imageOf(module)
		require.NoError(t, err)
		require.Equal(t, names, im.Names(), module)
		declared := variables(t, module)
		for i, name := range names {
			if i%fulltests.Or(1, 16) != 0 {
				continue // every kernel in full tests
			}
			ptx, err := im.Kernel(name)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(ptx), ".entry "), name)
			for _, v := range declared {
				require.Equal(t, strings.Count(string(ptx), v.name) > 0, strings.Contains(string(ptx), v.line), "%s in %s", v.name, name)
			}
		}
	}
}
