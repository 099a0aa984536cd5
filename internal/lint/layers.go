package lint

import (
	"slices"
	"strconv"
	"strings"
)

// layer says what the packages of one part of the module may import of the module.
//
// A pattern is a package's folder, or "x/..." for x and everything below it, as for the go command. "own" stands for the
// importing package's first two folders and everything below: kernels/cuda/gen may import what lies in kernels/cuda.
type layer struct {
	packages string
	may      []string
	tests    []string // what test files and packages of test helpers may import besides
}

// layers is the design's picture, from the bottom to the top. For each package the longest pattern that matches counts.
// Tests may reach further down, and sideways to the package that they try things with, but never up.
//
//	device
//	  |    \
//	memory  kernels     siblings: memory speaks bytes, kernels never allocate
//	  |    /
//	tensor
//	  |
//	autograd            autograd/nn and autograd/optim on top, siblings; autograd/checkpoint on both, autograd/fit on autograd/nn's memory report,
//	  |                 autograd/stepgraph and autograd/parallel on autograd/nn
//	  |
//	amp                 never imports optim: it declares the interfaces that it needs
//	  |
//	examples, benchmarks
var layers = []layer{
	{packages: "internal/...", may: leaves},
	{packages: "internal/command", may: with(leaves, "device")},                                              // the main of programs ends devices
	{packages: "internal/replay", may: with(leaves, "device"), tests: []string{"device/..."}},                // what captured work takes from memory
	{packages: "internal/training", may: with(leaves, "device")},                                             // what steps of optimizers take
	{packages: "internal/stepplan", may: with(leaves, "device", "memory"), tests: underMemory},               // what programs do for -plan
	{packages: "internal/torchtest", may: with(below, "tensor/...", "autograd/...", "amp/...")},              // compares all of them with PyTorch
	{packages: "internal/apifuzz", may: leaves, tests: with(below, "tensor/...", "autograd/...", "amp/...")}, // calls all that is exported
	{packages: "internal/safetensors", may: with(underTensor, "tensor")},                                     // the format, for tensor/safetensors and all that reads models
	{packages: "internal/soak", may: leaves, tests: with(below, "tensor/...", "autograd/...", "amp/...")},    // trains for long
	{packages: "device", may: []string{"internal/excerpt", "internal/platform"}, tests: []string{"device/..."}},
	{packages: "device/...", may: with(leaves, "own", "device", "device/internal/...", "device/blas"), tests: []string{"device/..."}},
	{packages: "device/comm/...", may: with(leaves, "own", "device", "device/internal/...", "device/comm/..."), tests: []string{"device/..."}},
	{packages: "device/dtype"}, // element types: below everything

	{packages: "memory", may: with(leaves, "device", "memory/plan", "memory/internal/..."), tests: underMemory},
	{packages: "memory/...", may: with(leaves, "own", "device", "memory", "memory/pinned", "memory/internal/..."), tests: underMemory},
	{packages: "memory/plan", tests: []string{"internal/trace", "internal/fulltests"}}, // arithmetic: of this module it needs nothing
	{packages: "memory/internal/...", may: with(leaves, "own", "device", "memory/internal/..."), tests: underMemory},

	{packages: "kernels/op", may: []string{"device", "device/dtype"}, tests: []string{"device/..."}},
	{packages: "kernels/cpu/...", may: with(underKernels, "own"), tests: []string{"kernels", "kernels/kerneltest"}},
	{packages: "kernels/cuda/...", may: with(underKernels, "own"), tests: []string{"kernels", "kernels/kerneltest", "kernels/cpu",
		"memory", "tensor"}}, // the memory traffic of whole operations
	{packages: "kernels/...", may: with(underKernels, "own", "kernels/cpu"), tests: []string{"kernels"}},
	{packages: "kernels", may: with(underKernels, "kernels/cpu", "kernels/cuda"), tests: []string{"kernels/..."}},

	{packages: "tensor", may: with(underTensor, "tensor/internal/..."), tests: with(below, "tensor/...")},
	{packages: "tensor/...", may: with(underTensor, "own", "tensor", "tensor/internal/..."), tests: with(below, "tensor/...")},

	{packages: "autograd", may: with(underAutograd, "autograd/internal/..."), tests: with(below, "tensor/...", "autograd/...")},
	{packages: "autograd/...", may: onAutograd, tests: with(below, "tensor/...", "autograd/...")},
	{packages: "autograd/checkpoint", may: with(onAutograd, "autograd/nn", "autograd/optim"),
		tests: with(below, "tensor/...", "autograd/...")},
	{packages: "autograd/fit", may: with(onAutograd, "autograd/nn/memreport"), tests: with(below, "tensor/...", "autograd/...")},
	{packages: "autograd/stepgraph", may: with(onAutograd, "autograd/nn"), tests: with(below, "tensor/...", "autograd/...", "amp")},
	{packages: "autograd/parallel", may: with(onAutograd, "autograd/checkpoint", "autograd/nn", "autograd/optim"), tests: with(below, "tensor/...", "autograd/...", "amp")},
	{packages: "amp/...", may: onAutograd, tests: with(below, "tensor/...", "autograd/...")},

	{packages: "examples/...", may: with(below, "own", "examples/internal/...", "examples/models", "examples/mnist/dataset",
		"tensor/...", "autograd/...", "amp/...")},
	{packages: "benchmarks/...", may: with(below, "own", "benchmarks/internal/...", "examples/models", "tensor/...", "autograd/...", "amp/...")},
}

// What several layers may import.
var (
	leaves        = []string{"internal/...", "device/dtype"}
	underMemory   = []string{"device/...", "memory/..."}
	underKernels  = with(leaves, "kernels/op", "kernels/internal/...", "device/...")
	underTensor   = with(leaves, "memory", "memory/pinned", "kernels", "kernels/op", "device/...")
	underAutograd = with(underTensor, "tensor/...")
	onAutograd    = with(underAutograd, "own", "autograd", "autograd/internal/...")
	below         = with(leaves, "device/...", "memory/...", "kernels/...") // for tests of tensor and above: all there is
)

func with(base []string, more ...string) []string {
	return append(base[:len(base):len(base)], more...)
}

// dependencies are the modules that code may import. More of them make "go get" slower and less certain for all, so each
// has its reason here.
var dependencies = []string{
	"github.com/chewxy/math32",           // float32 functions
	"github.com/ebitengine/purego",       // calls the GPU's driver without cgo
	"github.com/google/pprof",            // writes profiles; see confined
	"github.com/pkg/errors",              // errors that know their place
	"github.com/schollz/progressbar/v3",  // progress of examples; see confined
	"github.com/stretchr/testify",        // tests only
	"github.com/x448/float16",            // float16 conversions
	"go4.org/unsafe/assume-no-moving-gc", // not called: gorgonia.org/tensor needs a newer version of it than it asks for
	"golang.org/x/sys",                   // memory from the operating system
	"gonum.org/v1/gonum",                 // decompositions of matrices; see confined
	"gonum.org/v1/plot",                  // plots of benchmarks/replay; see confined
	"gorgonia.org/tensor",                // other programs' host tensors; see confined
}

// confined are those of the dependencies that programs which use this module must not pay for, and the only packages that import
// them: they are in no build that does not ask for these. internal/apifuzz calls all that is exported, in its tests.
var confined = map[string][]string{
	"github.com/google/pprof":            {"memory/memprof"},
	"github.com/schollz/progressbar/v3":  {"examples/...", "benchmarks/..."},
	"gonum.org/v1/gonum":                 {"tensor/linalg"},
	"gonum.org/v1/plot":                  {"examples/...", "benchmarks/...", "internal/plotfile"},
	"gorgonia.org/tensor":                {"tensor/dense", "internal/apifuzz"},
	"go4.org/unsafe/assume-no-moving-gc": {"tensor/dense"},
}

// apart are packages of this module that training on one device does without, and the only packages that import them: so it does not get slower, nor larger, by
// training on many.
var apart = map[string][]string{
	"device/comm/...":       {"device/comm/...", "autograd/parallel/...", "examples/parallel/...", "examples/internal/frompytorch", "benchmarks/...", "internal/apifuzz"},
	"autograd/parallel/...": {"autograd/parallel/...", "examples/parallel/...", "examples/internal/frompytorch", "benchmarks/...", "internal/apifuzz"},
}

// checkImports compares the imports of every file with layers and dependencies.
func checkImports(m *Module) (problems []Problem) {
	for _, f := range m.Files {
		if _, ok := layerOf(f.pkg()); !ok {
			problems = append(problems, f.problem(f.AST.Name, "give it a line in the table of internal/lint/layers.go",
				"package %s belongs to no layer", f.pkg()))
			continue
		}
		for _, spec := range f.AST.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser accepts no such file
			}
			if what, remedy := judge(m.Path, f, target); what != "" {
				problems = append(problems, f.problem(spec, remedy, "%s", what))
			}
		}
	}
	return problems
}

// judge returns what is wrong with one import, and the remedy, or "".
func judge(module string, f *File, target string) (what, remedy string) {
	inside, ok := strings.CutPrefix(target, module+"/")
	if ok {
		return judgeInside(f, inside)
	}
	switch first, _, _ := strings.Cut(target, "/"); {
	case target == "C":
		return "imports C", "use purego in device/cuda, plain Go elsewhere: the module builds without a C compiler"
	case !strings.Contains(first, "."):
		return "", "" // the standard library
	case matches("github.com/stretchr/testify/...", target) && !f.Test:
		return f.pkg() + " imports testify outside tests",
			`move the code to a _test.go file or to a package whose name ends in "test"`
	}
	for d, where := range confined {
		if matches(d+"/...", target) && !slices.ContainsFunc(where, func(p string) bool { return matches(p, f.pkg()) }) {
			return f.pkg() + " imports " + target + ", for which others would pay", "move the code to " + strings.Join(where, " or ")
		}
	}
	for _, d := range dependencies {
		if matches(d+"/...", target) {
			return "", ""
		}
	}
	return "imports " + target + ", which is not among the module's dependencies",
		"use the standard library or what is there; a new dependency is a decision: add it to internal/lint/layers.go with its reason"
}

// judgeInside does the same for an import of this module, given by its folder.
func judgeInside(f *File, target string) (what, remedy string) {
	for packages, where := range apart {
		if matches(packages, target) && !slices.ContainsFunc(where, func(p string) bool { return matches(p, f.pkg()) }) {
			return f.pkg() + " imports " + target + ", which training on one device does without", "move the code to " + strings.Join(where, " or ")
		}
	}
	rule, _ := layerOf(f.pkg())
	may := rule.may
	if f.Test {
		may = with(with(may, rule.tests...), f.pkg()) // an external test imports the package that it tests
	}
	for _, pattern := range may {
		if pattern == "own" {
			pattern = own(f.pkg())
		}
		if matches(pattern, target) {
			return "", ""
		}
	}
	allowed := strings.Join(may, ", ")
	if allowed == "" {
		allowed = "nothing"
	}
	return f.pkg() + " imports " + target + ", but of this module it may import " + allowed,
		"declare the small interface that it needs where it is used, or move the code up to a layer that may see both; " +
			"the table is in internal/lint/layers.go"
}

// layerOf returns the layer whose pattern matches the package most closely.
func layerOf(pkg string) (best layer, ok bool) {
	for _, l := range layers {
		if matches(l.packages, pkg) && (!ok || closer(l.packages, best.packages)) {
			best, ok = l, true
		}
	}
	return best, ok
}

// closer reports whether pattern a, which matches the same package as b, says more: the longer folder, and of equal ones
// the one without "/...".
func closer(a, b string) bool {
	folderA, treeA := strings.CutSuffix(a, "/...")
	folderB, _ := strings.CutSuffix(b, "/...")
	return len(folderA) > len(folderB) || len(folderA) == len(folderB) && !treeA
}

// own is the pattern of what lies below the first two folders of a package.
func own(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/") + "/..."
}

// matches reports whether a path is what the pattern names: x itself, or with "x/..." also something below it.
func matches(pattern, path string) bool {
	folder, tree := strings.CutSuffix(pattern, "/...")
	return path == folder || tree && strings.HasPrefix(path, folder+"/")
}
