//go:build linux && amd64

package fakecuda

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stops launches a kernel of PTX that must break the context with a code; what was found must have the texts.
func (c *cu) stops(want int, f uintptr, threads uint32, args []any, texts ...string) {
	c.t.Helper()
	c.ok(c.try(f, dim{1, 1, 1}, dim{threads, 1, 1}, 0, 0, args...))
	c.is(want, c.CtxSynchronize())
	found := strings.Join(c.lib.Findings(), "\n")
	for _, text := range texts {
		require.Contains(c.t, found, text)
	}
}

// kernel is a kernel of two pointers, %rd0 and %rd1, and %r0, the thread. shared has room for 64 words.
func (c *cu) kernel(code string) (f uintptr) {
	c.t.Helper()
	c.ok(c.ModuleFunction(&f, c.module(`.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
	.reg .pred %p<8>; .reg .b16 %rs<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<16>;
	.shared .align 16 .b8 shared[256];
	ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd0, %rd2; mov.u64 %rd4, shared; add.s64 %rd5, %rd4, %rd2;
`+code+"\n	ret;\n}\n"), "k"))
	return f
}

// Each of the demonstration's barriers, and its wait, is needed: without it the interpreter finds a race, whatever the order.
func TestInterpreter_FindsTheRaceThatAMissingBarrierMakes(t *testing.T) {
	for mutant, run := range map[string]func(c *cu){
		"1": func(c *cu) {
			c.try(c.function("block_sum"), dim{3, 1, 1}, dim{224, 1, 1}, 0, 0, upload(c, make([]float32, 672)), c.alloc(12))
		},
		"2": func(c *cu) {
			c.try(c.function("from_left"), dim{1, 1, 1}, dim{256, 1, 1}, 0, 0, upload(c, ints(256)), c.alloc(1024))
		},
		"3": func(c *cu) {
			c.try(c.function("from_right"), dim{1, 1, 1}, dim{256, 1, 1}, 1024, 0, upload(c, ints(256)), c.alloc(1024))
		},
		"4": func(c *cu) {
			c.try(c.function("running_sum"), dim{1, 1, 1}, dim{96, 1, 1}, 0, 0, upload(c, ints(288)), c.alloc(384), int32(3))
		},
		"5": func(c *cu) {
			c.try(c.function("tile_f16"), dim{1, 1, 1}, dim{32, 1, 1}, 0, 0, upload(c, make([]uint16, 256)), upload(c, make([]uint16, 128)), c.alloc(512))
		},
		"6": func(c *cu) {
			c.try(c.function("copy_through"), dim{1, 1, 1}, dim{64, 1, 1}, 0, 0, upload(c, ints(64)), c.alloc(256))
		},
	} {
		for _, greedy := range []bool{false, true} {
			t.Run(mutant, func(t *testing.T) {
				c := onInterpreter(t)
				c.lib.Greedy(greedy)
				c.demo(mutant)
				run(c)
				c.is(launchFailed, c.CtxSynchronize())
				require.Contains(t, strings.Join(c.lib.Findings(), "\n"), "race in shared memory")
			})
		}
	}
}

func TestInterpreter_WritesAndReadsOfOneWarpRaceToo(t *testing.T) {
	const exchange = "st.shared.u32 [%rd5], %r0; BARRIER xor.b32 %r1, %r0, 1; mul.wide.u32 %rd6, %r1, 4; add.s64 %rd6, %rd4, %rd6; ld.shared.u32 %r2, [%rd6]; st.global.u32 [%rd3], %r2;"
	for barrier, races := range map[string]bool{"": true, "bar.warp.sync -1;": false, "bar.sync 0;": false, "membar.cta;": true} {
		c := onInterpreter(t)
		f, p := c.kernel(strings.Replace(exchange, "BARRIER", barrier, 1)), c.alloc(128)
		if races {
			c.stops(launchFailed, f, 32, []any{p, p}, "race in shared memory: thread 0 reads byte 4, and thread 1 did without a barrier")
			continue
		}
		c.ok(c.try(f, dim{1, 1, 1}, dim{32, 1, 1}, 0, 0, p, p))
		require.Equal(t, []uint32{1, 0, 3, 2}, download[uint32](c, p, 4))
	}
}

func TestInterpreter_NamesTheInstructionThatTouchedWhatItMustNot(t *testing.T) {
	for name, test := range map[string]struct {
		code  string
		want  int
		texts []string
	}{
		"global":              {"st.global.u32 [%rd3+8192], %r0;", illegalAddress, []string{"illegal ", "st.global.u32", "block (0, 0, 0), warp 0"}},
		"shared":              {"st.shared.u32 [%rd5+132], %r0;", illegalAddress, []string{"4 bytes at 256 of shared memory, which has 256", "st.shared.u32"}},
		"below shared":        {"ld.shared.u32 %r1, [%rd4+-4];", illegalAddress, []string{"at -4 of shared memory"}},
		"misaligned":          {"ld.global.u32 %r1, [%rd3+2];", 716, []string{"is not a multiple of 4"}},
		"misaligned vector":   {"ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd3];", 716, []string{"is not a multiple of 16"}},
		"misaligned cp":       {"cvt.u32.u64 %r1, %rd5; cp.async.cg.shared.global [%r1], [%rd0], 16, 16;", 716, []string{"is not a multiple of 16"}},
		"trap":                {"trap;", launchFailed, []string{"trap"}},
		"lane that is away":   {"setp.lt.u32 %p1, %r0, 8; @%p1 bra $L; shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; $L: st.global.u32 [%rd0], %r0;", launchFailed, []string{"wants lanes 0xffffffff, but only 0xffffff00 have come"}},
		"divergent barrier":   {"setp.lt.u32 %p1, %r0, 8; @%p1 bra $L; bar.sync 0; $L: st.global.u32 [%rd0], %r0;", launchFailed, []string{"only lanes 0xffffff00 of 0xffffffff have come to a barrier"}},
		"two barriers":        {"setp.lt.u32 %p1, %r0, 32; @%p1 bra $L; bar.sync 0; bra $M; $L: bar.sync 1; $M: st.global.u32 [%rd0], %r0;", launchFailed, []string{"wait at two barriers"}},
		"partial warp":        {"setp.gt.u32 %p1, %r0, 30; @%p1 ret; cvt.u32.u64 %r1, %rd4; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];", launchFailed, []string{"ldmatrix wants lanes 0xffffffff, but only 0x7fffffff are there"}},
		"copy not waited for": {"cvt.u32.u64 %r1, %rd5; cp.async.ca.shared.global [%r1], [%rd3], 4, 4; cp.async.commit_group; ld.shared.u32 %r2, [%rd5];", launchFailed, []string{"before thread 0 has waited for its asynchronous copy"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := onInterpreter(t)
			p := c.alloc(256)
			c.stops(test.want, c.kernel(test.code), 64, []any{p, p}, test.texts...)
		})
	}
}

// In global memory, between threads of a block and between blocks.
func TestInterpreter_FindsRacesInGlobalMemory(t *testing.T) {
	for code, text := range map[string]string{
		"st.global.u32 [%rd0], %r0;":                            "race in global memory: thread 1 writes byte",
		"st.global.u32 [%rd3], %r0; ld.global.u32 %r1, [%rd0];": "thread 1 reads byte",
		"mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd6, %r1, 128; add.s64 %rd3, %rd3, %rd6; st.global.u32 [%rd3], %r0;":                                                            "",
		"mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r0, 0; @%p1 ret; st.global.u32 [%rd0], %r1; mov.u32 %r1, 0;":                                                                "race in global memory: block 1 writes the byte at",
		"ld.global.u32 %r1, [%rd3]; mov.u32 %r2, %ctaid.x; mad.lo.s32 %r2, %r2, 64, %r0; setp.ne.u32 %p1, %r2, 64; @%p1 ret; st.global.u32 [%rd0], %r1; add.u32 %r1, %r1, 1;": "which block 0 reads",
		"atom.global.add.u32 %r1, [%rd0], 1;":        "",
		"mov.u32 %r1, 7; st.global.u32 [%rd0], %r1;": "",
	} {
		c := onInterpreter(t)
		p := c.alloc(512)
		c.ok(c.try(c.kernel(code), dim{2, 1, 1}, dim{32, 1, 1}, 0, 0, p, p))
		if text == "" {
			c.ok(c.CtxSynchronize())
			continue
		}
		c.is(launchFailed, c.CtxSynchronize())
		require.Contains(t, strings.Join(c.lib.Findings(), "\n"), text, code)
	}
}

// Lanes that a branch parted run their sides and meet again: the sum over a warp after the join is that of all lanes.
func TestInterpreter_LanesMeetAfterABranch(t *testing.T) {
	for _, greedy := range []bool{false, true} {
		c := onInterpreter(t)
		c.lib.Greedy(greedy)
		c.lib.Set("counts", "1")
		f := c.kernel(`
	mov.u32 %r5, 0; and.b32 %r1, %r0, 3;
$LOOP:
	setp.ge.u32 %p1, %r5, %r1; @%p1 bra $DONE;
	add.u32 %r5, %r5, 1; and.b32 %r2, %r5, 1; setp.eq.u32 %p2, %r2, 0; @%p2 bra $LOOP;
	add.u32 %r5, %r5, 0;
	bra.uni $LOOP;
$DONE:
	shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1; add.u32 %r5, %r5, %r6;
	st.global.u32 [%rd3], %r5;`)
		p := c.alloc(256)
		c.ok(c.try(f, dim{1, 1, 1}, dim{64, 1, 1}, 0, 0, p, p))
		require.Equal(t, []uint32{1, 1, 5, 5, 1, 1}, download[uint32](c, p, 6))
		require.Contains(t, strings.Join(c.lib.Counts(), "\n"), "k launches=1 blocks=1")
	}
}

func TestInterpreter_CountsWhatMemoryCosts(t *testing.T) {
	for code, want := range map[string]string{
		"ld.global.u32 %r1, [%rd3];": "requests=2 bytes=256 sectors=8 needed=8",
		"add.s64 %rd3, %rd3, %rd2; add.s64 %rd3, %rd3, %rd2; ld.global.u32 %r1, [%rd3];": "requests=2 bytes=256 sectors=24 needed=8",
		"ld.global.u32 %r1, [%rd0];": "requests=2 bytes=256 sectors=2 needed=2",
		"ld.shared.u32 %r1, [%rd5];": "accesses=2 wavefronts=2 passes=2",
		"ld.shared.u32 %r1, [%rd4];": "accesses=2 wavefronts=2 passes=2",
		"and.b32 %r1, %r0, 1; mul.wide.u32 %rd6, %r1, 128; add.s64 %rd6, %rd6, %rd4; ld.shared.u32 %r1, [%rd6];":                     "accesses=2 wavefronts=4 passes=2",
		"and.b32 %r1, %r0, 15; mul.wide.u32 %rd6, %r1, 16; add.s64 %rd6, %rd6, %rd4; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%rd6];": "accesses=2 wavefronts=8 passes=8",
	} {
		c := onInterpreter(t)
		c.lib.Set("counts", "1")
		p := c.alloc(1024)
		c.ok(c.try(c.kernel(code), dim{1, 1, 1}, dim{64, 1, 1}, 0, 0, p, p))
		c.ok(c.CtxSynchronize())
		require.Contains(t, strings.Join(c.lib.Counts(), "\n"), want, code)
	}
}

func TestInterpreter_RefusesWhatItDoesNotKnow(t *testing.T) {
	c := onInterpreter(t)
	f := c.kernel("tanh.approx.f32 %f1, %f0;")
	c.is(notSupported, c.try(f, dim{1, 1, 1}, dim{1, 1, 1}, 0, 0, uint64(0), uint64(0)))
	c.found("the interpreter does not know tanh.approx.f32")
	f = c.kernel("add.s32 %r1, %r0, %rd0;")
	c.is(notSupported, c.try(f, dim{1, 1, 1}, dim{1, 1, 1}, 0, 0, uint64(0), uint64(0)))
	c.found("%rd0 has another size than its instruction")
	f = c.kernel("bra $NOWHERE;")
	c.is(notSupported, c.try(f, dim{1, 1, 1}, dim{1, 1, 1}, 0, 0, uint64(0), uint64(0)))
	c.found("no label $NOWHERE")
}
