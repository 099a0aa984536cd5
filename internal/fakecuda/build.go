package fakecuda

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

//go:embed src
var sources embed.FS

// required is the variable that CI sets where there is a compiler: a missing one is then a failure instead of a skip.
const required = "CISTERN_REQUIRE_FAKECUDA"

// driverFlags build the library. The guard leaves frames by siglongjmp, which _FORTIFY_SOURCE would take for an attack.
var driverFlags = []string{"-std=c++17", "-O1", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-U_FORTIFY_SOURCE",
	"-ldl", "-lpthread"}

// Build compiles the library, unless that was done before with the same sources and compiler, and returns its path. The file
// is named libcuda.so.1. Without a compiler, or on another system than linux/amd64, the test is skipped.
func Build(t testing.TB) string {
	t.Helper()
	cxx := compiler(t)
	return cached(t, "libcuda.so.1", []string{cxx, version(cxx), fmt.Sprint(driverFlags), treeHash(t, sources)}, func(dir, out string) {
		if err := os.CopyFS(dir, sources); err != nil {
			t.Fatalf("fakecuda: %v", err)
		}
		args := append([]string{filepath.Join(dir, "src", "all.cc"), "-o", out}, driverFlags...)
		run(t, cxx, args...)
	})
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

// cached returns the path of the file called name that belongs to key. If it is not there, make builds it: in a folder of its
// own, under a lock that other processes respect, so that packages tested at the same time do not build it twice.
func cached(t testing.TB, name string, key []string, make func(dir, out string)) string {
	t.Helper()
	h := sha256.New()
	for _, k := range key {
		fmt.Fprintf(h, "%d %s\n", len(k), k)
	}
	folder := filepath.Join(cacheRoot(), hex.EncodeToString(h.Sum(nil))[:24])
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
	unlock, err := lockFile(filepath.Join(folder, "lock"))
	if err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	dir := t.TempDir()
	make(dir, filepath.Join(folder, "new"))
	if err := os.Rename(filepath.Join(folder, "new"), path); err != nil {
		t.Fatalf("fakecuda: %v", err)
	}
	return path
}

// cacheRoot is the user's cache folder, or the one for temporary files where there is none.
func cacheRoot() string {
	root, err := os.UserCacheDir()
	if err != nil {
		root = os.TempDir()
	}
	return filepath.Join(root, "cistern", "fakecuda")
}

// run ends the test if the compiler fails: the sources are ours.
func run(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("fakecuda: %s: %v\n%s", name, err, out.String())
	}
}
