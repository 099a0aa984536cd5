package cpu

import (
	endian "encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The loops with AMX are tested on processors without it, too: the tests of pairs run in a process of their own, whose instructions of AMX are computed here, as Intel's manual says, each time that
// the processor has none.

// amxTraced is set in the environment of that process.
const amxTraced = "CISTERN_TEST_AMX_TRACED"

func init() {
	if os.Getenv(amxTraced) == "" {
		return
	}
	morePairSets = []pairSet{
		{"bfloat16 in tiles of AMX", brainHalf, tilesOfPairs("32x32 AMX-BF16", tile32x32BF16AMX), pairRows},
		{"float16 in tiles of AMX", float16Half, tilesOfPairs("32x32 AMX-FP16", tile32x32FP16AMX), pairRows},
	}
}

func TestTilesOfAMX_InAProcessWhoseInstructionsAreComputedHere(t *testing.T) {
	if os.Getenv(amxTraced) != "" {
		t.Skip("this is that process")
	}
	if !wideVectors() {
		t.Skip("the loops need AVX-512 as well")
	}
	if raceDetector {
		t.Skip("the race detector sees nothing of assembly")
	}
	runtime.LockOSThread() // it is this thread that traces
	defer runtime.UnlockOSThread()
	out, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer out.Close()
	p, err := os.StartProcess(os.Args[0], []string{os.Args[0], "-test.v", "-test.run", "^(TestMatMul_OfPairsIsThatOfFloat32|TestMultiplyPairs_WritesFloat32)$/AMX"}, &os.ProcAttr{
		Env:   append(os.Environ(), amxTraced+"=1", "GOMAXPROCS=2", "GODEBUG=asyncpreemptoff=0"),
		Files: []*os.File{nil, out, out},
		Sys:   &unix.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		t.Skipf("a process cannot be traced here: %v", err)
	}
	tr := &amxTracer{t: t, pid: p.Pid, threads: map[int]*amxTiles{}}
	status := tr.run()
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	require.Zero(t, status, string(text))
	require.Equal(t, 6, strings.Count(string(text), "--- PASS"), string(text))
	require.Greater(t, tr.counts["TDPBF16PS"], 1000, tr.counts)
	require.Greater(t, tr.counts["TDPFP16PS"], 1000, tr.counts)
	require.Equal(t, tr.counts["LDTILECFG"], tr.counts["TILERELEASE"], "tiles are given back")
}

// amxTracer computes the instructions of AMX of a process.
type amxTracer struct {
	t       *testing.T
	pid     int
	threads map[int]*amxTiles
	counts  map[string]int
}

// amxTiles are those of a thread: nil where it has none configured.
type amxTiles struct {
	rows, wide [8]int
	data       [8][16][64]byte
}

// run goes on until the process ends, and returns its exit status.
func (tr *amxTracer) run() int {
	tr.counts = map[string]int{}
	var ws unix.WaitStatus
	_, err := unix.Wait4(tr.pid, &ws, unix.WALL, nil)
	require.NoError(tr.t, err)
	require.True(tr.t, ws.Stopped(), ws)
	require.NoError(tr.t, unix.PtraceSetOptions(tr.pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL))
	require.NoError(tr.t, unix.PtraceCont(tr.pid, 0))
	known := map[int]bool{tr.pid: true}
	for {
		tid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		require.NoError(tr.t, err)
		if ws.Exited() || ws.Signaled() {
			if tid == tr.pid {
				return int(ws)
			}
			continue
		}
		signal := ws.StopSignal()
		switch {
		case signal == unix.SIGILL:
			if err := tr.compute(tid); err != nil {
				tr.t.Error(err)
				_ = unix.Kill(tr.pid, unix.SIGKILL)
				continue
			}
			signal = 0
		case signal == unix.SIGTRAP, signal == unix.SIGSTOP && !known[tid]: // a new thread
			signal = 0
		}
		known[tid] = true
		if err := unix.PtraceCont(tid, int(signal)); err != nil && err != unix.ESRCH {
			require.NoError(tr.t, err)
		}
	}
}

// compute does what the instruction means at which a thread has stopped.
func (tr *amxTracer) compute(tid int) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	var code [12]byte
	if _, err := unix.PtracePeekText(tid, uintptr(regs.Rip), code[:]); err != nil {
		return err
	}
	i, err := decodeAMX(code[:], &regs)
	if err != nil {
		return err
	}
	tr.counts[i.name]++
	if i.name == "LDTILECFG" {
		if tr.threads[tid], err = tr.configured(i.address); err != nil {
			return err
		}
	} else if tr.threads[tid] == nil {
		return fmt.Errorf("%s without LDTILECFG", i.name)
	} else if err := tr.on(tr.threads[tid], i, tid); err != nil {
		return err
	}
	regs.Rip += uint64(i.length)
	return unix.PtraceSetRegs(tid, &regs)
}

func (tr *amxTracer) on(tiles *amxTiles, i amxInstruction, tid int) error {
	switch i.name {
	case "TILERELEASE":
		tr.threads[tid] = nil
	case "TILEZERO":
		tiles.data[i.reg] = [16][64]byte{}
	case "TILELOADD":
		tiles.data[i.reg] = [16][64]byte{}
		for r := range tiles.rows[i.reg] {
			if err := tr.read(i.address+uint64(r)*i.stride, tiles.data[i.reg][r][:tiles.wide[i.reg]]); err != nil {
				return err
			}
		}
	case "TILESTORED":
		for r := range tiles.rows[i.reg] {
			if err := tr.write(i.address+uint64(r)*i.stride, tiles.data[i.reg][r][:tiles.wide[i.reg]]); err != nil {
				return err
			}
		}
	case "TDPBF16PS":
		return tiles.products(i, brainHalf)
	case "TDPFP16PS":
		return tiles.products(i, float16Half)
	}
	return nil
}

// configured are the tiles that the 64 bytes at an address describe, of palette 1.
func (tr *amxTracer) configured(at uint64) (*amxTiles, error) {
	var c [64]byte
	if err := tr.read(at, c[:]); err != nil {
		return nil, err
	}
	tiles := &amxTiles{}
	for k := range 8 {
		tiles.wide[k], tiles.rows[k] = int(endian.LittleEndian.Uint16(c[16+2*k:])), int(c[48+k])
		if tiles.wide[k] > 64 || tiles.rows[k] > 16 {
			return nil, fmt.Errorf("tile %d of %d rows of %d bytes", k, tiles.rows[k], tiles.wide[k])
		}
	}
	for k, v := range c {
		if k == 0 && v != 1 || k == 1 && v != 0 || (k >= 2 && k < 16 || k >= 32 && k < 48 || k >= 56) && v != 0 {
			return nil, fmt.Errorf("configuration %x", c)
		}
	}
	return tiles, nil
}

// products adds those of pairs: of a row of the first tile and of a column of the second.
func (tiles *amxTiles) products(i amxInstruction, h half) error {
	sum, a, b := i.reg, i.first, i.second
	if tiles.rows[sum] != tiles.rows[a] || tiles.wide[a] != 4*tiles.rows[b] || tiles.wide[sum] != tiles.wide[b] || sum == a || sum == b || a == b {
		return fmt.Errorf("%s of tiles %d, %d and %d", i.name, sum, a, b)
	}
	word := func(tile, row, at int) uint32 { return endian.LittleEndian.Uint32(tiles.data[tile][row][4*at:]) }
	for m := range tiles.rows[sum] {
		for n := range tiles.wide[sum] / 4 {
			var even, odd float32
			for k := range tiles.rows[b] {
				x, y := word(a, m, k), word(b, k, n)
				even += h.number(uint16(x)) * h.number(uint16(y))
				odd += h.number(uint16(x>>16)) * h.number(uint16(y>>16))
			}
			to := tiles.data[sum][m][4*n:]
			endian.LittleEndian.PutUint32(to, math.Float32bits(math.Float32frombits(endian.LittleEndian.Uint32(to))+(even+odd)))
		}
	}
	return nil
}

func (tr *amxTracer) read(at uint64, to []byte) error {
	n, err := unix.ProcessVMReadv(tr.pid, []unix.Iovec{{Base: &to[0], Len: uint64(len(to))}}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(to)}}, 0)
	return whole(n, len(to), err)
}

func (tr *amxTracer) write(at uint64, from []byte) error {
	n, err := unix.ProcessVMWritev(tr.pid, []unix.Iovec{{Base: &from[0], Len: uint64(len(from))}}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(from)}}, 0)
	return whole(n, len(from), err)
}

func whole(n, want int, err error) error {
	if err == nil && n != want {
		err = fmt.Errorf("%d bytes of %d", n, want)
	}
	return err
}

// amxInstruction is one of them with its operands: tiles, or a tile and rows in memory that are stride bytes apart.
type amxInstruction struct {
	name               string
	length             int
	reg, first, second int
	address, stride    uint64
}

// decodeAMX reads an instruction with a VEX prefix of three bytes, of the second map.
func decodeAMX(c []byte, regs *unix.PtraceRegs) (i amxInstruction, err error) {
	if c[0] != 0xc4 || c[1]&31 != 2 || c[2]&0x84 != 0 {
		return i, fmt.Errorf("an unknown instruction: % x", c)
	}
	general := []uint64{regs.Rax, regs.Rcx, regs.Rdx, regs.Rbx, regs.Rsp, regs.Rbp, regs.Rsi, regs.Rdi,
		regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15}
	bit := func(n int) byte { return c[1]>>n&1 ^ 1 }
	prefix, modrm := c[2]&3, c[4]
	registers, rm := modrm>>6 == 3, modrm&7
	i.reg, i.length = int(modrm>>3&7), 5
	if !registers {
		base := rm
		if rm == 4 {
			base = c[5] & 7
			i.stride = general[c[5]>>3&7|bit(6)<<3] << (c[5] >> 6)
			i.length++
		}
		i.address = general[base|bit(5)<<3]
		switch modrm >> 6 {
		case 1:
			i.address += uint64(int64(int8(c[i.length])))
			i.length++
		case 2:
			i.address += uint64(int64(int32(endian.LittleEndian.Uint32(c[i.length:]))))
			i.length += 4
		}
	}
	names := map[[3]byte]string{
		{0x49, 0, 0}: "LDTILECFG", {0x49, 0, 1}: "TILERELEASE", {0x49, 3, 1}: "TILEZERO", {0x4b, 3, 0}: "TILELOADD", {0x4b, 2, 0}: "TILESTORED",
		{0x5c, 2, 1}: "TDPBF16PS", {0x5c, 3, 1}: "TDPFP16PS",
	}
	i.first, i.second = int(rm), int(c[2]>>3&15^15)
	of := byte(0)
	if registers {
		of = 1
	}
	if i.name = names[[3]byte{c[3], prefix, of}]; i.name == "" {
		return i, fmt.Errorf("an unknown instruction: % x", c)
	}
	return i, nil
}
