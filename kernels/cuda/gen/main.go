// Gen compiles the CUDA sources of package kernels/cuda to PTX, by clang and without NVIDIA's toolkit, and writes what Go needs
// of them: ptx/NAME.ptx.lzma for each src/NAME.cu, and modules.go. go generate runs it in the folder of the package.
//
// The PTX depends on the sources and the major version of clang alone, so that CI can run it again and compare. A file that holds the
// same PTX stays as it is: versions of xz may pack it to other bytes, and CI need not have xz. Without clang 19 it says so and
// changes nothing; CLANG in the environment names another binary. PART=1/3 there compiles every third source, from number 1 on, and takes the
// others' PTX as it is: what CI does, as modules.go says by a hash which sources all of it was made from.
//
//	cd kernels/cuda && go run ./gen -pack
//
// packs anew the PTX that is there, which needs no clang: for when it is how PTX is packed that has changed.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"go/format"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cistern-ml/cistern/internal/ptx"
)

// flags make PTX 7.0 for compute capability 8.0, which drivers from 2020 on take. The front end assumes an old PTX when there
// is no SDK, hence the feature. Products and sums are not contracted, so that results are those of the emulator.
var flags = []string{
	"-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-O3", "-std=c++17", "-ffp-contract=off", "-Wall", "-Werror",
	"-Wno-unknown-cuda-version", "-Wno-unused-command-line-argument", "--cuda-gpu-arch=sm_80", "--cuda-feature=+ptx70", "-Iemu", "-S",
}

var entry = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

// module is one compiled source.
type module struct {
	name    string
	kernels []string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("kernels/cuda/gen: ")
	again := flag.Bool("pack", false, "only pack anew the PTX that is there")
	flag.Parse()
	work := run
	if *again {
		work = packAgain
	}
	if err := work(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	clang := os.Getenv("CLANG")
	if clang == "" {
		clang = "clang++-19"
	}
	if _, err := exec.LookPath(clang); err != nil {
		log.Printf("SKIPPED: %v; the PTX stays as it is", err)
		return nil
	}
	sources, err := filepath.Glob("src/*.cu")
	if err != nil || len(sources) == 0 {
		return fmt.Errorf("no src/*.cu here: %v", err)
	}
	first, step := 0, 1
	if part := os.Getenv("PART"); part != "" {
		if _, err := fmt.Sscanf(part, "%d/%d", &first, &step); err != nil || step < 1 || first < 0 || first >= step {
			return fmt.Errorf("PART=%s, want a number from 0 on, a slash and the number of parts", part)
		}
	}
	modules := make([]module, len(sources))
	errs := make([]error, len(sources))
	var group sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for i, source := range sources {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if i%step == first {
				modules[i], errs[i] = compile(clang, source)
			} else {
				modules[i], errs[i] = made(source)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if err := removeStale(modules); err != nil {
		return err
	}
	return writeModules(modules)
}

// made is the module of a source whose PTX is there.
func made(source string) (module, error) {
	m := moduleOf(source)
	text, err := ptx.ReadFile(m.file())
	if err != nil {
		return m, err
	}
	return m, m.find(text)
}

func moduleOf(source string) module {
	return module{name: strings.TrimSuffix(filepath.Base(source), ".cu")}
}

func (m *module) file() string { return filepath.Join("ptx", m.name+packed) }

// find sets the kernels of a module with a text.
func (m *module) find(text []byte) error {
	for _, match := range entry.FindAllSubmatch(text, -1) {
		m.kernels = append(m.kernels, string(match[1]))
	}
	slices.Sort(m.kernels)
	if len(m.kernels) == 0 {
		return fmt.Errorf("%s has no kernels", m.name)
	}
	return nil
}

// compile makes the PTX of one source.
func compile(clang, source string) (module, error) {
	m := moduleOf(source)
	var out, messages bytes.Buffer
	cmd := exec.Command(clang, slices.Concat(flags, []string{source, "-o", "-"})...)
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return m, fmt.Errorf("%s: %v\n%s", source, err, messages.String())
	}
	if err := m.find(out.Bytes()); err != nil {
		return m, err
	}
	text := slim(out.Bytes())
	if old, err := ptx.ReadFile(m.file()); err == nil && bytes.Equal(old, text) {
		return m, nil
	}
	return m, pack(m.file(), text)
}

// slim leaves out comments and indentation: every program that imports package tensor carries the PTX.
func slim(ptx []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(ptx) {
		line, _, _ = bytes.Cut(line, []byte("//"))
		if line = bytes.Join(bytes.Fields(line), []byte(" ")); len(line) > 0 {
			out.Write(line)
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// removeStale removes the PTX of sources that are gone.
func removeStale(modules []module) error {
	files, err := filepath.Glob("ptx/*")
	if err != nil {
		return err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), packed)
		if !slices.ContainsFunc(modules, func(m module) bool { return m.name == name }) {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// inputs is a hash of all files that the PTX is made from, names included.
func inputs() (string, error) {
	h := sha256.New()
	for _, pattern := range []string{"emu/gk*.h", "src/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		slices.Sort(files)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%s %d\n%s", filepath.ToSlash(file), len(data), data)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

func writeModules(modules []module) error {
	hash, err := inputs()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by kernels/cuda/gen. DO NOT EDIT.\n\npackage cuda\n\n")
	fmt.Fprintf(&b, "// inputsHash is that of the sources that the PTX was made from: src/*, emu/gk*.h.\nconst inputsHash = %q\n\n", hash)
	fmt.Fprintf(&b, "// modules are the compiled sources and their kernels.\nvar modules = map[string][]string{\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "%q: {\n", m.name)
		line := "\t\t"
		for _, k := range m.kernels {
			if len(line)+len(k) > 120 {
				fmt.Fprintln(&b, line)
				line = "\t\t"
			}
			line += fmt.Sprintf("%q, ", k)
		}
		fmt.Fprintf(&b, "%s\n},\n", line)
	}
	fmt.Fprintf(&b, "}\n")
	code, err := format.Source(b.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile("modules.go", code, 0o644)
}
