package fakecuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// kernelFlags compile kernels and the engine that runs them. Contraction is off, as it is for the GPU, so that both sides
// round alike.
var kernelFlags = []string{"-std=c++17", "-O1", "-g1", "-fPIC", "-fvisibility=hidden", "-U_FORTIFY_SOURCE", "-ffp-contract=off",
	"-fno-strict-aliasing", "-Wno-unknown-pragmas"}

// launchABI is the header that the emulator shares with the driver, as seen from the emulator's folder.
const launchABI = "../../../internal/fakecuda/src/kernel_abi.h"

// flagsVariable is the environment variable with further flags for the compiler of kernels. What cannot be tested all the time, because
// it doubles the time to compile: "-fsanitize=alignment -fsanitize-undefined-trap-on-error" makes an access that is not
// aligned to its type, which a GPU refuses and a processor allows, end the launch with a trap.
const flagsVariable = "CISTERN_KERNEL_FLAGS"

// BuildKernels compiles CUDA sources for the processor and returns the path of a library for Library.LoadKernels. emulator is
// the folder of the emulation header, kernels/cuda/emu, as seen from the test. flags are added to the compiler's, such as
// "-DNAME". What was built before from the same text is taken from the cache, each source by itself. Tests are skipped where
// Build skips them.
func BuildKernels(t testing.TB, emulator string, kernels []string, flags ...string) string {
	t.Helper()
	b := newKernelBuild(t, emulator, kernels, flags)
	engine, err := filepath.Glob(filepath.Join(emulator, "*.cc"))
	if err != nil || len(engine) == 0 {
		t.Fatalf("fakecuda: no sources of the emulator in %s", emulator)
	}
	objects := b.compileAll(append(engine, kernels...))
	return cached(t, "kernels.so", append([]string{b.cxx, "link"}, objects...), func(_, out string) {
		run(t, b.cxx, append([]string{"-shared", "-o", out, "-lpthread"}, objects...)...)
	})
}

// kernelBuild is one call of BuildKernels.
type kernelBuild struct {
	t     testing.TB
	cxx   string
	flags []string
	key   []string // of everything that all objects depend on
}

func newKernelBuild(t testing.TB, emulator string, kernels, flags []string) *kernelBuild {
	t.Helper()
	b := &kernelBuild{t: t, cxx: compiler(t)}
	folders := []string{emulator}
	for _, k := range kernels {
		if dir := filepath.Dir(k); !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	b.flags = slices.Concat(kernelFlags, vectorFlags(), strings.Fields(os.Getenv(flagsVariable)), flags)
	b.key = []string{b.cxx, version(b.cxx), strings.Join(b.flags, " "), fileHash(t, filepath.Join(emulator, launchABI))}
	for _, folder := range folders {
		folder, err := filepath.Abs(folder)
		if err != nil {
			t.Fatalf("fakecuda: %v", err)
		}
		b.flags = append(b.flags, "-I"+folder)
		b.key = append(b.key, headersHash(t, folder))
	}
	return b
}

// vectorFlags let the compiler use what the processor has; fma in hardware is much faster than in software.
func vectorFlags() []string {
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return nil
	}
	var flags []string
	for _, name := range []string{"avx2", "fma", "f16c"} {
		if regexp.MustCompile(`\b` + name + `\b`).Match(cpu) {
			flags = append(flags, "-m"+name)
		}
	}
	return flags
}

// headersHash is a hash of the headers of a folder; sources are hashed one by one.
func headersHash(t testing.TB, folder string) string {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(folder, "*.h"))
	hash := ""
	for _, name := range names {
		hash += fileHash(t, name)
	}
	return hash
}

// compileAll returns the objects of the sources, in their order. It compiles as many at once as there are processors.
func (b *kernelBuild) compileAll(sources []string) []string {
	b.t.Helper()
	objects, errs := make([]string, len(sources)), make([]error, len(sources))
	slots := make(chan struct{}, max(1, min(4, runtime.NumCPU())))
	var wg sync.WaitGroup
	for i, source := range sources {
		key := append(slices.Clone(b.key), filepath.Base(source), fileHash(b.t, source)) // of whichever copy of the tree
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			objects[i], errs[i] = cachedFile("object.o", key, func(dir, out string) error { return b.compile(source, dir, out) })
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			b.t.Fatalf("fakecuda: %s: %v", sources[i], err)
		}
	}
	return objects
}

// compile makes the object of one source. A source of kernels is wrapped: it is included, and its kernels are registered.
func (b *kernelBuild) compile(source, dir, out string) error {
	if filepath.Ext(source) == ".cu" {
		path, err := filepath.Abs(source)
		if err != nil {
			return err
		}
		names, err := b.listKernels(path)
		if err != nil {
			return err
		}
		source = filepath.Join(dir, "kernels.cc")
		if err := os.WriteFile(source, []byte(wrap(path, names)), 0o644); err != nil {
			return err
		}
	}
	return execute(b.cxx, append(slices.Clone(b.flags), "-c", source, "-o", out)...)
}

// kernelName finds kernels in preprocessed text, where gk.h has left a mark in front of each.
var kernelName = regexp.MustCompile(`gk_kernel_here\s+void\s+(\w+)\s*\(`)

// listKernels returns the names of the kernels of a source, macros expanded.
func (b *kernelBuild) listKernels(path string) (names []string, err error) {
	text, err := exec.Command(b.cxx, append(slices.Clone(b.flags), "-DGK_LIST", "-E", "-P", "-x", "c++", path)...).Output()
	if err != nil {
		return nil, fmt.Errorf("listing kernels: %w: %s", err, stderrOf(err))
	}
	for _, m := range kernelName.FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no kernels (GK_KERNEL) found")
	}
	return names, nil
}

// wrap is the text that is compiled for a source of kernels: see emu_table.h.
func wrap(path string, names []string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "#include %q\n#include \"emu_table.h\"\n\nstatic const gk_kernel gk_table[] = {\n", path)
	for _, name := range names {
		fmt.Fprintf(&s, "    GK_ENTRY(%s),\n", name)
	}
	fmt.Fprintf(&s, "};\nstatic gk::Registration gk_registration(gk_table, %d);\n", len(names))
	return s.String()
}
