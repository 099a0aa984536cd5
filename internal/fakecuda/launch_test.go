//go:build linux && amd64

package fakecuda

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

const emulator = "../../kernels/cuda/emu"

// demo builds and loads the kernels of testdata; mutant 0 is the correct version.
func (c *cu) demo(mutant string) {
	c.t.Helper()
	var flags []string
	if mutant != "" {
		flags = []string{"-DMUTANT=" + mutant}
	}
	if c.interpreter {
		c.ptx = demoPTX(c.t, flags...)
		return
	}
	c.lib.LoadKernels(BuildKernels(c.t, emulator, []string{"testdata/demo.cu"}, flags...))
}

// function returns a kernel by its name, in a module of its own.
func (c *cu) function(name string) (f uintptr) {
	c.t.Helper()
	_, f = c.load(name)
	return f
}

func (c *cu) load(name string) (m, f uintptr) {
	c.t.Helper()
	if c.interpreter {
		m = c.module(c.ptx)
	} else {
		m = c.module(c.lib.SkeletonPTX(name))
	}
	c.ok(c.ModuleFunction(&f, m, name))
	return m, f
}

func (c *cu) module(ptx string) (m uintptr) {
	c.t.Helper()
	image := append([]byte(ptx), 0)
	c.ok(c.ModuleLoad(&m, &image[0], 0, nil, nil))
	return m
}

type dim [3]uint32

// try launches a function; numbers are passed with their Go types.
func (c *cu) try(f uintptr, grid, block dim, shared uint32, s uintptr, args ...any) int32 {
	c.t.Helper()
	params := make([]*byte, len(args)+1)
	for i, a := range args {
		b, err := binary.Append(nil, binary.LittleEndian, a)
		require.NoError(c.t, err)
		params[i] = &append(b, make([]byte, 16)...)[0]
	}
	return c.Launch(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, s, &params[0], 0)
}

// launch runs a kernel with grid x and block x on the NULL stream and waits for it.
func (c *cu) launch(name string, grid, block uint32, args ...any) {
	c.t.Helper()
	m, f := c.load(name)
	c.ok(c.try(f, dim{grid, 1, 1}, dim{block, 1, 1}, 0, 0, args...))
	c.ok(c.CtxSynchronize())
	c.ok(c.ModuleUnload(m))
}

// upload copies values to new device memory.
func upload[T any](c *cu, v []T) uint64 {
	c.t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, v)
	require.NoError(c.t, err)
	p := c.alloc(uint64(len(b)))
	c.write(p, b)
	return p
}

// download reads n values.
func download[T any](c *cu, p uint64, n int) []T {
	c.t.Helper()
	v := make([]T, n)
	b := c.read(p, uint64(binary.Size(v)))
	_, err := binary.Decode(b, binary.LittleEndian, v)
	require.NoError(c.t, err)
	return v
}

// schedules runs a test under both.
func schedules(t *testing.T, test func(t *testing.T, c *cu)) {
	for _, greedy := range []bool{false, true} {
		t.Run(map[bool]string{false: "run to barrier", true: "greedy warp"}[greedy], func(t *testing.T) {
			c := start(t)
			c.lib.Greedy(greedy)
			test(t, c)
		})
	}
}

// everyway is schedules, and then both with what clang makes of the kernels, on the PTX interpreter.
func everyway(t *testing.T, test func(t *testing.T, c *cu)) {
	schedules(t, test)
	for _, greedy := range []bool{false, true} {
		t.Run(map[bool]string{false: "PTX", true: "PTX, backwards"}[greedy], func(t *testing.T) {
			c := onInterpreter(t)
			c.lib.Greedy(greedy)
			test(t, c)
		})
	}
}
