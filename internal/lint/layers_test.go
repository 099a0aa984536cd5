package lint

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mod = "github.com/cistern-ml/cistern/"

// imports returns what checkImports says about a file with the given imports.
func imports(t *testing.T, path string, targets ...string) []Problem {
	t.Helper()
	lines := []string{"package p"}
	for _, target := range targets {
		lines = append(lines, `import _ "`+target+`"`)
	}
	return checkImports(&Module{Path: strings.TrimSuffix(mod, "/"), Files: []*File{source(t, path, lines...)}})
}

// The arrows of the design, one by one: who imports what.
func TestImports_FollowTheDesign(t *testing.T) {
	cases := []struct{ file, allowed, forbidden string }{
		{"device/device_test.go", "device device/host", "memory"},
		{"device/device.go", "", "device/host device/internal/extent internal/invariants memory kernels/op device/dtype"},
		{"device/host/a.go", "device device/internal/extent device/host/x internal/invariants", "device/sim memory kernels/op tensor"},
		{"device/host/a_test.go", "device device/host device/sim device/devicetest", "memory kernels/op"},
		{"device/devicetest/a.go", "device device/host", "memory"},
		{"memory/a.go", "device internal/invariants memory/internal/size", "device/host kernels kernels/op tensor memory/memtest"},
		{"memory/a_test.go", "memory device/host device/sim memory/memtest", "kernels kernels/op tensor autograd"},
		{"memory/memtest/a.go", "memory device device/sim", "kernels/op tensor"},
		{"memory/replay/a.go", "memory device", "device/sim kernels/op tensor"},
		{"device/dtype/a.go", "", "device memory tensor internal/invariants"},
		{"device/dtype/a_test.go", "device/dtype", "device"},
		{"kernels/op/a.go", "device device/dtype", "device/host kernels kernels/cpu memory tensor"},
		{"kernels/cpu/a.go", "kernels/op device device/host device/dtype kernels/cpu/simd", "kernels kernels/cuda memory tensor"},
		{"kernels/cpu/a_test.go", "kernels kernels/cpu kernels/kerneltest", "kernels/cuda memory tensor"},
		{"kernels/cuda/a.go", "kernels/op device/cuda kernels/cuda/gen", "kernels kernels/cpu memory tensor"},
		{"kernels/cuda/a_test.go", "kernels kernels/cpu kernels/kerneltest memory tensor", "autograd"},
		{"kernels/kerneltest/a.go", "kernels kernels/op kernels/cpu device/host", "memory tensor"},
		{"kernels/a.go", "kernels/op kernels/cpu kernels/cuda device", "memory tensor autograd kernels/kerneltest"},
		{"tensor/a.go", "memory kernels kernels/op device device/host device/dtype", "kernels/cpu kernels/cuda autograd amp"},
		{"tensor/a_test.go", "tensor memory/memtest kernels/cpu device/sim", "autograd amp examples/mnist"},
		{"autograd/a.go", "tensor device/dtype memory kernels device", "kernels/cpu autograd/nn autograd/optim amp"},
		{"autograd/a_test.go", "autograd kernels/cpu autograd/nn", "amp"},
		{"autograd/nn/a.go", "autograd tensor memory autograd/internal/x", "autograd/optim amp examples/mnist"},
		{"autograd/nn/a_test.go", "autograd/optim", "amp"},
		{"autograd/optim/a.go", "autograd tensor", "autograd/nn amp"},
		{"autograd/optim/a_test.go", "autograd/nn", "amp"},
		{"autograd/checkpoint/a.go", "autograd autograd/nn autograd/optim tensor device/host", "amp examples/mnist"},
		{"amp/a.go", "autograd tensor device/dtype memory", "autograd/optim autograd/nn examples/mnist benchmarks/x"},
		{"amp/a_test.go", "autograd/optim autograd/nn", "examples/mnist"},
		{"examples/mnist/a.go", "device/cuda memory kernels/cpu tensor autograd/nn amp examples/mnist/dataset", "benchmarks/x examples/xor"},
		{"benchmarks/x/a.go", "device/sim memory kernels tensor autograd/optim amp benchmarks/x/y", "examples/mnist benchmarks/z"},
		{"benchmarks/x/a_test.go", "benchmarks/internal/replay", "benchmarks/z"},
		{"internal/testutil/a.go", "device/dtype internal/invariants", "device memory kernels/op tensor"},
	}
	for _, c := range cases {
		for _, target := range strings.Fields(c.allowed) {
			require.Empty(t, imports(t, c.file, mod+target), "%s may import %s", c.file, target)
		}
		for _, target := range strings.Fields(c.forbidden) {
			problems := imports(t, c.file, mod+target)
			require.Len(t, problems, 1, "%s may not import %s", c.file, target)
			require.Equal(t, c.file+":2", problems[0].Where)
			require.Contains(t, problems[0].What, "imports "+target+", but")
			require.NotEmpty(t, problems[0].Remedy)
		}
	}
}

// Whatever the table says, it must leave a direction: no package's code may reach itself through others.
func TestLayers_HaveNoCircle(t *testing.T) {
	packages := []string{
		"device", "device/host", "memory", "memory/memtest", "kernels/op", "kernels/cpu", "kernels/cuda", "kernels/kerneltest", "kernels",
		"device/dtype", "tensor", "autograd", "autograd/nn", "autograd/optim", "amp", "examples/mnist", "benchmarks/x",
	}
	may := func(from, to string) bool {
		f := &File{Path: from + "/a.go"}
		what, _ := judgeInside(f, to)
		return from != to && what == ""
	}
	for _, start := range packages {
		reached := []string{start}
		for i := 0; i < len(reached); i++ {
			for _, next := range packages {
				if may(reached[i], next) && !slices.Contains(reached[1:], next) {
					reached = append(reached, next)
				}
			}
		}
		require.NotContains(t, reached[1:], start)
	}
}

func TestImports_RefuseAPackageWithoutALayer(t *testing.T) {
	for _, file := range []string{"cistern.go", "utils/a.go", "devices/a.go"} {
		problems := imports(t, file)
		require.Equal(t, []string{file + ":1"}, where(problems))
		require.Contains(t, problems[0].What, "belongs to no layer")
	}
}

func TestImports_RefuseOtherModulesAndC(t *testing.T) {
	for _, fine := range []string{"fmt", "net/http", "github.com/pkg/errors", "golang.org/x/sys/unix"} {
		require.Empty(t, imports(t, "tensor/a.go", fine))
	}
	for _, wrong := range []string{"C", "github.com/other/module", "gorgonia.org/tensors", "github.com/stretchr/testify/require"} {
		require.Len(t, imports(t, "tensor/a.go", wrong), 1, wrong)
	}
	require.Empty(t, imports(t, "tensor/a_test.go", "github.com/stretchr/testify/require"))
	require.Empty(t, imports(t, "memory/memtest/a.go", "github.com/stretchr/testify/require"))
}

func TestImports_KeepHeavyModulesWhereTheyAreAskedFor(t *testing.T) {
	for target, fine := range map[string]string{
		"gonum.org/v1/plot": "benchmarks/replay/a.go", "gonum.org/v1/plot/vg/vgsvg": "examples/amp/a.go",
		"gorgonia.org/tensor": "tensor/dense/a.go", "gorgonia.org/tensor/native": "tensor/dense/a_test.go",
	} {
		require.Empty(t, imports(t, fine, target))
		for _, wrong := range []string{"memory/a_test.go", "tensor/a.go", "amp/a.go", "autograd/nn/a.go"} {
			problems := imports(t, wrong, target)
			require.Len(t, problems, 1)
			require.Contains(t, problems[0].What, "imports "+target)
		}
	}
}

// Nothing that trains on one device imports what trains on many, though the table of layers would let it.
func TestImports_KeepGroupsOfRanksApart(t *testing.T) {
	const mod = "github.com/cistern-ml/cistern/"
	for _, file := range []string{"autograd/a.go", "autograd/nn/a.go", "autograd/optim/a.go", "amp/a.go", "tensor/a.go", "memory/a.go", "examples/gpt/main.go", "amp/a_test.go"} {
		for _, target := range []string{"device/comm", "device/comm/mpi", "autograd/parallel"} {
			problems := imports(t, file, mod+target)
			require.Len(t, problems, 1, "%s, %s", file, target)
			require.Contains(t, problems[0].What, "imports "+target+",")
		}
	}
	for _, target := range []string{"device/comm", "device/comm/mpi", "autograd/parallel"} {
		require.Empty(t, imports(t, "examples/parallel/a.go", mod+target))
	}
	require.Empty(t, imports(t, "autograd/parallel/a.go", mod+"device/comm"))
}
