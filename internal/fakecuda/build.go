package fakecuda

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

//go:embed src
var sources embed.FS

// required is the variable that CI sets where there is a compiler: a missing one is then a failure instead of a skip.
const required = "CISTERN_REQUIRE_FAKECUDA"

// driverFlags build the library. The guard leaves frames by siglongjmp, which _FORTIFY_SOURCE would take for an attack.
// interpreterFlags are those of the part that runs PTX, which wants vectors and exact arithmetic.
var (
	driverFlags      = []string{"-std=c++17", "-O1", "-g1", "-fPIC", "-fvisibility=hidden", "-U_FORTIFY_SOURCE"}
	interpreterFlags = []string{"-O3", "-ffp-contract=off", "-fno-strict-aliasing", "-Wno-unknown-pragmas"}
)

// Build compiles the library, unless that was done before with the same sources and compiler, and returns its path. The file
// is named libcuda.so.1. Without a compiler, or on another system than linux/amd64, the test is skipped.
func Build(t testing.TB) string {
	t.Helper()
	cxx := compiler(t)
	interpreter := buildInterpreter(t, cxx)
	return cached(t, "libcuda.so.1", []string{cxx, version(cxx), fmt.Sprint(driverFlags), fileHash(t, interpreter), treeHash(t, sources)}, func(dir, out string) {
		object := filepath.Join(dir, "all.o")
		compile(t, cxx, dir, driverFlags, "src/all.cc", object)
		run(t, cxx, "-shared", "-o", out, object, interpreter, "-ldl", "-lpthread")
	})
}

// interpreterSources are all that the interpreter of PTX is made of. It takes longer to compile than the rest, and changes less often.
//
//go:embed src/interpreter src/kernel_abi.h
var interpreterSources embed.FS

// buildInterpreter is Build for the interpreter's object file.
func buildInterpreter(t testing.TB, cxx string) string {
	t.Helper()
	flags := slices.Concat(driverFlags, interpreterFlags, vectorFlags())
	return cached(t, "interpreter.o", []string{cxx, version(cxx), fmt.Sprint(flags), treeHash(t, interpreterSources)}, func(dir, out string) {
		compile(t, cxx, dir, flags, "src/interpreter/all.cc", out)
	})
}

// compile makes an object file of one of the sources, which it puts into the folder dir.
func compile(t testing.TB, cxx, dir string, flags []string, source, object string) {
	t.Helper()
	if err := os.CopyFS(dir, sources); err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
	run(t, cxx, append([]string{"-c", filepath.Join(dir, filepath.FromSlash(source)), "-o", object}, flags...)...)
}

// compiler returns the path of a C++ compiler or skips the test.
func compiler(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skipf("fakecuda: SKIPPED: the emulated CUDA driver is for linux/amd64, not %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	for _, name := range []string{os.Getenv("CXX"), "g++", "clang++", "clang++-19", "c++"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const why = "no C++ compiler (g++ or clang++) in PATH to build the emulated CUDA driver"
	if os.Getenv(required) != "" {
		t.Fatalf("fakecuda: %s, and %s is set", why, required)
	}
	t.Skip("fakecuda: SKIPPED: " + why)
	return ""
}

// version is what a compiler says of itself; it is part of the key of what it built.
func version(cxx string) string {
	out, _ := exec.Command(cxx, "--version").Output()
	return string(out)
}

// treeHash is a hash of all files of a tree, names included.
func treeHash(t testing.TB, tree fs.FS) string {
	t.Helper()
	h := sha256.New()
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, path)
		fmt.Fprintf(h, "%s %d\n", path, len(data))
		h.Write(data)
		return err
	})
	if err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// fileHash is a hash of one file's content.
func fileHash(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// cached is cachedFile for a file that make builds or ends the test.
func cached(t testing.TB, name string, key []string, make func(dir, out string)) string {
	t.Helper()
	path, err := cachedFile(name, key, func(dir, out string) error {
		make(dir, out)
		return nil
	})
	if err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
	return path
}

// cachedFile returns the path of the file called name that belongs to key. If it is not there, make builds it: with a folder
// of its own for what it needs, under a lock that other processes respect, so that packages tested at the same time do not
// build it twice.
func cachedFile(name string, key []string, make func(dir, out string) error) (path string, err error) {
	h := sha256.New()
	for _, k := range key {
		fmt.Fprintf(h, "%d %s\n", len(k), k)
	}
	folder := filepath.Join(cacheRoot(), hex.EncodeToString(h.Sum(nil))[:24])
	path = filepath.Join(folder, name)
	if info, err := os.Stat(path); err == nil {
		touch(folder, info)
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	prune()
	unlock, err := lockFile(filepath.Join(folder, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "fakecuda")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := make(dir, filepath.Join(folder, "new")); err != nil {
		return "", err
	}
	return path, os.Rename(filepath.Join(folder, "new"), path)
}

// cacheRoot is the user's cache folder, or the one for temporary files where there is none.
func cacheRoot() string {
	root, err := os.UserCacheDir()
	if err != nil {
		root = os.TempDir()
	}
	return filepath.Join(root, "cistern", "fakecuda")
}

// staleAfter is how long what nobody asked for stays in the cache.
const staleAfter = 14 * 24 * time.Hour

// touch notes that a folder of the cache is in use, at most once a day.
func touch(folder string, file fs.FileInfo) {
	if now := time.Now(); now.Sub(file.ModTime()) > 24*time.Hour {
		_ = os.Chtimes(filepath.Join(folder, file.Name()), now, now) // a cache that cannot be written to does as well
		_ = os.Chtimes(folder, now, now)
	}
}

// prune removes what is stale. Whoever is just about to use it has touched it.
func prune() {
	entries, err := os.ReadDir(cacheRoot())
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(filepath.Join(cacheRoot(), e.Name()))
		}
	}
}

// run ends the test if the compiler fails: the sources are ours.
func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if err := execute(name, args...); err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
}

// execute runs a program. Its error has what the program printed.
func execute(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

func stderrOf(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}
