//go:build linux && amd64

package fakecuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const header = ".version 7.0\n.target sm_80\n.address_size 64\n"

// compileError loads PTX that must fail and returns what the driver's compiler says of it.
func (c *cu) compileError(want int, ptx string) string {
	c.t.Helper()
	const room = 300
	var buffer uint64 // pinned, since its address goes as a number
	var m uintptr
	c.ok(c.HostAlloc(&buffer, room, 0))
	image, options, values := append([]byte(ptx), 0), []int32{6, 5}, []uintptr{room, uintptr(buffer)}
	c.is(want, c.ModuleLoadLog(&m, &image[0], 2, &options[0], &values[0]))
	log := c.readHost(buffer, room)[:values[0]]
	c.ok(c.HostFree(buffer))
	require.NotEmpty(c.t, log)
	require.Zero(c.t, log[len(log)-1])
	text := string(log[:len(log)-1])
	c.found(text)
	return text
}

func TestModule_RefusesWhatTheDriverCannotCompile(t *testing.T) {
	c := start(t)
	newer := c.compileError(unsupportedPTX, strings.Replace(header, "7.0", "9.1", 1))
	require.Contains(t, newer, "Unsupported .version 9.1; current version is '8.7'")
	require.Contains(t, c.compileError(noBinary, strings.Replace(header, "sm_80", "sm_90", 1)), "higher than default SM version")
	require.Contains(t, c.compileError(noBinary, strings.Replace(header, "sm_80", "sm_90a", 1)), "sm_90a")
	require.Contains(t, c.compileError(invalidPTX, ".target sm_80\n"), "Missing .version")
	require.Contains(t, c.compileError(invalidPTX, header+".visible .entry k(.param .u64 a) { ret;"), "syntax error")
	require.Contains(t, c.compileError(invalidPTX, header+".visible .entry k(.reg .u64 a) { ret; }"), "syntax error")
	var m uintptr
	c.is(invalidImage, c.ModuleLoad(&m, &[]byte("nonsense\x00")[0], 0, nil, nil))
	require.Contains(t, c.compileError(noBinary, "\x7fELF.version"), "cubin")
	c.lib.Set("driver_version", "11000")
	require.Contains(t, c.compileError(unsupportedPTX, strings.Replace(header, "7.0", "7.1", 1)), "'7.0'")
	c.lib.Set("driver_version", "13000")
	c.lib.Set("compute", "90")
	for _, version := range []string{"8.0", "9.0"} {
		c.module(strings.Replace(strings.Replace(header, "7.0", version, 1), "sm_80", "sm_90a", 1))
	}
}

func TestModule_KnowsItsFunctions(t *testing.T) {
	c := start(t)
	m := c.module(header + `
// .visible .entry commented(.param .u32 no)
.extern .shared .align 16 .b8 dynamic[];
.shared .align 8 .b8 outside[100];
.visible .entry first(
	.param .u64 .ptr .global .align 8 a,
	.param .align 8 .b8 b[24], /* , .param .u32 c */
	.param .f32 c
)
.maxntid 128, 2, 1
{
	.shared .align 4 .b8 inside[30];
	.local .align 8 .b8 __local_depot0[40];
	mov.u64 %rd3, __local_depot0; ld.local.u32 %r1, [%rd3];
	mov.u64 %rd1, outside; mov.u64 %rd2, inside;
	{ ret; }
}
.entry second { ret; }
`)
	var f, again, second uintptr
	c.ok(c.ModuleFunction(&f, m, "first"))
	c.ok(c.ModuleFunction(&again, m, "first"))
	c.ok(c.ModuleFunction(&second, m, "second"))
	require.Equal(t, f, again)
	c.is(notFound, c.ModuleFunction(&again, m, "commented"))
	attribute := func(f uintptr, a int32) (v int32) { c.ok(c.FuncGet(&v, a, f)); return v }
	require.Equal(t, []int32{256, 130, 40, 32}, []int32{attribute(f, 0), attribute(f, 1), attribute(f, 3), attribute(f, 4)})
	require.Equal(t, []int32{1024, 0, 0, 48 << 10}, []int32{attribute(second, 0), attribute(second, 1), attribute(second, 3), attribute(second, 8)})
	c.ok(c.ModuleUnload(m))
	c.is(invalidHandle, c.ModuleUnload(m))
	c.is(invalidHandle, c.try(f, dim{1, 1, 1}, dim{1, 1, 1}, 0, 0))
}

func TestLaunch_ChecksItsLimits(t *testing.T) {
	c := start(t)
	c.demo("")
	f, p := c.function("from_right"), c.alloc(4096)
	for text, shape := range map[string]struct {
		grid, block dim
		shared      uint32
	}{
		"a dimension is 0":          {dim{0, 1, 1}, dim{1, 1, 1}, 0},
		"grid of 1 x 65536 x 1":     {dim{1, 65536, 1}, dim{1, 1, 1}, 0},
		"block of 1025 x 1 x 1":     {dim{1, 1, 1}, dim{1025, 1, 1}, 0},
		"block of 1 x 1 x 65":       {dim{1, 1, 1}, dim{1, 1, 65}, 0},
		"block of 64 x 32 x 1":      {dim{1, 1, 1}, dim{64, 32, 1}, 0},
		"at most 49152 are allowed": {dim{1, 1, 1}, dim{1, 1, 1}, 49153},
	} {
		c.is(invalidValue, c.try(f, shape.grid, shape.block, shape.shared, 0, p, p))
		c.found(text)
	}
	c.is(invalidValue, c.FuncSet(f, attrMaxSharedDynamic, 200<<10))
	c.ok(c.FuncSet(f, attrMaxSharedDynamic, 100<<10))
	c.ok(c.try(f, dim{1, 1, 1}, dim{64, 1, 1}, 100<<10, 0, p, p))
	c.ok(c.CtxSynchronize())
}

// Parameters are read by the call, in the sizes that the PTX says.
func TestLaunch_ComparesParametersWithTheKernel(t *testing.T) {
	c := start(t)
	c.demo("")
	var f uintptr
	c.ok(c.ModuleFunction(&f, c.module(header+".visible .entry from_left(.param .u64 a){}"), "from_left"))
	c.is(invalidValue, c.try(f, dim{1, 1, 1}, dim{1, 1, 1}, 0, 0, uint64(0)))
	c.found("the PTX has 1 parameters, the emulated kernel 2")
	c.ok(c.ModuleFunction(&f, c.module(header+".visible .entry from_left(.param .u64 a, .param .u32 b){}"), "from_left"))
	c.is(invalidValue, c.try(f, dim{1, 1, 1}, dim{1, 1, 1}, 0, 0, uint64(0), uint32(0)))
	c.found("parameter 1 has 4 bytes in the PTX and 8 in the emulated kernel")
	c.ok(c.ModuleFunction(&f, c.module(header+".visible .entry nobody(){}"), "nobody"))
	c.is(notSupported, c.try(f, dim{1, 1, 1}, dim{1, 1, 1}, 0, 0))
	c.found("there is no emulated kernel nobody")
}

// demoPTX is what clang makes of the demonstration kernels for a GPU. The test is skipped where there is no clang.
func demoPTX(t testing.TB, flags ...string) string {
	t.Helper()
	clang, err := exec.LookPath("clang++-19")
	if err != nil {
		t.Skip("SKIPPED: no clang++-19 in PATH, which compiles kernels to PTX")
	}
	out := filepath.Join(t.TempDir(), "demo.ptx")
	cmd := exec.Command(clang, append([]string{"-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-O3", "-std=c++17",
		"-ffp-contract=off", "-Wno-unknown-cuda-version", "--cuda-gpu-arch=sm_80", "--cuda-feature=+ptx70", "-Werror",
		"-I", emulator, "-S", "testdata/demo.cu", "-o", out}, flags...)...)
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	ptx, err := os.ReadFile(out)
	require.NoError(t, err)
	return string(ptx)
}

// The demonstration kernels also compile for a GPU, and the emulated driver understands the result: the same parameters.
func TestDemo_CompilesToPTX(t *testing.T) {
	ptx := demoPTX(t)
	c := start(t)
	c.demo("")
	m := c.module(ptx)
	var f uintptr
	c.ok(c.ModuleFunction(&f, m, "from_left"))
	p := upload(c, ints(256))
	q := c.alloc(1024)
	c.ok(c.try(f, dim{1, 1, 1}, dim{256, 1, 1}, 0, 0, p, q))
	require.Equal(t, ints(256)[0], download[int32](c, q, 2)[1])
	var shared, threads int32
	c.ok(c.FuncGet(&shared, 1, f))
	c.ok(c.FuncGet(&threads, 0, f))
	require.Equal(t, []int32{1024, 256}, []int32{shared, threads})
	type pair struct {
		A, Pad int32
		B      float64
	}
	c.ok(c.ModuleFunction(&f, m, "parameters"))
	args := []any{q, int8(1), int16(2), int32(3), int64(4), float32(5), 6.0, pair{A: 7, B: 8}, uint8(9)}
	c.ok(c.try(f, dim{1, 1, 1}, dim{32, 1, 1}, 0, 0, args...))
	require.Equal(t, float64(45), download[float64](c, q, 1)[0])
}
