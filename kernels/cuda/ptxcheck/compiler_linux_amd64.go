package main

import (
	"bytes"
	"fmt"

	"github.com/ebitengine/purego"
)

// compiler is the driver's own PTX compiler: libnvidia-ptxjitcompiler exports the functions of NVIDIA's nvPTXCompiler library.
// It needs no GPU.
type compiler struct {
	version      func(major, minor *uint32) int32
	create       func(handle *uintptr, n uintptr, ptx *byte) int32
	compile      func(handle uintptr, n int32, options **byte) int32
	infoLogSize  func(handle uintptr, n *uintptr) int32
	infoLog      func(handle uintptr, text *byte) int32
	errorLogSize func(handle uintptr, n *uintptr) int32
	errorLog     func(handle uintptr, text *byte) int32
	destroy      func(handle *uintptr) int32
}

// open loads the compiler from the first of the files that can be loaded.
func open(files []string) (*compiler, error) {
	var handle uintptr
	var err error
	for _, file := range files {
		if handle, err = purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	c := &compiler{}
	for name, f := range map[string]any{
		"GetVersion": &c.version, "Create": &c.create, "Compile": &c.compile, "GetInfoLogSize": &c.infoLogSize,
		"GetInfoLog": &c.infoLog, "GetErrorLogSize": &c.errorLogSize, "GetErrorLog": &c.errorLog, "Destroy": &c.destroy,
	} {
		if _, err := purego.Dlsym(handle, "nvPTXCompiler"+name); err != nil {
			return nil, err
		}
		purego.RegisterLibFunc(f, handle, "nvPTXCompiler"+name)
	}
	return c, nil
}

// run compiles PTX for an architecture and returns the compiler's report.
func (c *compiler) run(ptx []byte, arch string) (string, error) {
	text := append(bytes.Clone(ptx), 0)
	var handle uintptr
	if r := c.create(&handle, uintptr(len(text)), &text[0]); r != 0 {
		return "", fmt.Errorf("nvPTXCompilerCreate: %d", r)
	}
	defer c.destroy(&handle)
	options := [2]*byte{cString("--gpu-name=" + arch), cString("--verbose")}
	if r := c.compile(handle, int32(len(options)), &options[0]); r != 0 {
		return "", fmt.Errorf("nvPTXCompilerCompile: %d: %s", r, readLog(handle, c.errorLogSize, c.errorLog))
	}
	return readLog(handle, c.infoLogSize, c.infoLog), nil
}

func readLog(handle uintptr, size func(uintptr, *uintptr) int32, read func(uintptr, *byte) int32) string {
	var n uintptr
	if size(handle, &n) != 0 || n == 0 {
		return ""
	}
	text := make([]byte, n+1)
	if read(handle, &text[0]) != 0 {
		return ""
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	return string(text)
}

func cString(s string) *byte { return &append([]byte(s), 0)[0] }

// name is the compiler and the CUDA version it belongs to.
func (c *compiler) name() string {
	var major, minor uint32
	c.version(&major, &minor)
	return fmt.Sprintf("nvPTXCompiler %d.%d", major, minor)
}
