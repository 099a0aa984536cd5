package cuda

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModules_AreMadeFromTheseSources(t *testing.T) {
	h := sha256.New()
	for _, pattern := range []string{"emu/gk*.h", "src/*"} {
		files, err := filepath.Glob(filepath.FromSlash(pattern))
		require.NoError(t, err)
		slices.Sort(files)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
			fmt.Fprintf(h, "%s %d\n%s", filepath.ToSlash(file), len(data), data)
		}
	}
	require.Equal(t, inputsHash, fmt.Sprintf("%x", h.Sum(nil)),
		"a source changed after the PTX was made: run go generate ./kernels/cuda, with clang 19")
}

func TestModules_HaveEachKernelThatARowUses_AndNoOther(t *testing.T) {
	used := map[string]map[string]bool{}
	for _, k := range kernels {
		require.Contains(t, modules[k.module], k.name, "module %s", k.module)
		if used[k.module] == nil {
			used[k.module] = map[string]bool{}
		}
		used[k.module][k.name] = true
	}
	for module, names := range modules {
		for _, name := range names {
			require.True(t, used[module][name], "no row uses kernel %s of module %s", name, module)
		}
	}
}

func TestModules_AreEmbeddedPTXForComputeCapability80(t *testing.T) {
	entry := regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)
	for module, names := range modules {
		ptx, err := textOf(module)
		require.NoError(t, err)
		require.Contains(t, string(ptx[:min(len(ptx), 400)]), ".version 7.0\n.target sm_80\n.address_size 64\n", module)
		var found []string
		for _, m := range entry.FindAllSubmatch(ptx, -1) {
			found = append(found, string(m[1]))
		}
		slices.Sort(found)
		require.Equal(t, names, found, module)
	}
	_, err := textOf("absent")
	require.Error(t, err)
}

// Local memory is slow memory: arrays that could not be kept in registers, or parameters that were copied to be indexed.
func TestModules_UseNoLocalMemory(t *testing.T) {
	for module := range modules {
		ptx, err := textOf(module)
		require.NoError(t, err)
		require.NotContains(t, string(ptx), "__local_depot", module)
	}
}

func TestDivisor_DividesAsGoDoes(t *testing.T) {
	require.Equal(t, divisor(1), new(loop).divisor(0), "of a dimension that is not there")
	numbers := []int{0, 1, 2, 3, 6, 7, 8, 9, 100, 127, 128, 1000, 65535, 65536, 1<<31 - 2, 1<<31 - 1}
	for _, size := range append(numbers[1:], 1<<31) {
		d := divisor(size)
		for _, n := range append(numbers, size-1, size, size+1, 2*size-1, 2*size) {
			if n >= maxLoop {
				continue
			}
			high := uint32(uint64(n) * uint64(d[1]) >> 32)
			require.Equal(t, n/size, int((high+uint32(n))>>d[2]), "%d / %d", n, size)
		}
	}
}
