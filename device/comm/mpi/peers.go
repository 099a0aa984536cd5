package mpi

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// peers knows the processes of the other ranks: those of the same machine can be looked at.
type peers struct{ all []peer }

// peer is the process of a rank.
type peer struct {
	pid     int
	started uint64 // by the system's clock: a later process may have the same number
	machine uint64 // where the number means something: the machine and its part that sees the same processes
	host    string
	checks  bool          // Options.Check
	limit   time.Duration // Options.TimeLimit
}

const peerBytes = 128

// introduce tells all ranks each other's processes.
func (e *engine) introduce() *comm.Fault {
	memory, err := osmem.Alloc(uint64(e.size * peerBytes))
	if err != nil {
		return &comm.Fault{Peer: e.rank, Err: comm.ErrLibrary, Detail: err.Error()}
	}
	all := osmem.Bytes(memory, uint64(e.size*peerBytes))
	own := self()
	own.checks, own.limit = e.options.Check, e.options.TimeLimit
	own.write(all[e.rank*peerBytes:][:peerBytes])
	e.current = &comm.Call{Operation: "Open"}
	f := e.begin(e.lib.Allgather(e.lib.InPlace, memory, peerBytes, e.data, e.request), &patience{since: time.Now(), limit: e.options.opening()})
	e.current = nil
	if f != nil {
		return f // MPI may still use the memory
	}
	for rank := range e.size {
		e.peers.all = append(e.peers.all, readPeer(all[rank*peerBytes:][:peerBytes]))
	}
	if err := osmem.Free(memory, uint64(e.size*peerBytes)); err != nil {
		return &comm.Fault{Peer: e.rank, Err: comm.ErrLibrary, Detail: err.Error()}
	}
	return e.peers.agreed()
}

// agreed is the fault of ranks that do not all compare their calls, as what the one sends to be compared another one would take for data, or that would
// wait for each other for different times.
func (p *peers) agreed() *comm.Fault {
	first := p.all[0]
	for rank, q := range p.all {
		option, own, other := "", any(nil), any(nil)
		switch {
		case q.checks != first.checks:
			option, own, other = "Check", first.checks, q.checks
		case q.limit != first.limit:
			option, own, other = "TimeLimit", first.limit, q.limit
		default:
			continue
		}
		return &comm.Fault{Peer: rank, Other: 0, Err: comm.ErrMismatch,
			Detail: fmt.Sprintf("Options.%s is %v on rank 0, and %v on rank %d: it must be the same on all ranks", option, own, other, rank)}
	}
	return nil
}

// self is this process.
func self() peer {
	p := peer{pid: os.Getpid()}
	p.host, _ = os.Hostname() // only for texts
	_, p.started, _ = processState(p.pid)
	h := fnv.New64a()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // what cannot be read is the same for all: then the host's name decides
	space, _ := os.Readlink("/proc/self/ns/pid")
	_, _ = h.Write([]byte(string(boot) + p.host + space))
	p.machine = h.Sum64()
	return p
}

func (p peer) write(b []byte) {
	for i, v := range []uint64{uint64(p.pid), p.started, p.machine, uint64(p.limit)} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	copy(b[32:len(b)-2], p.host)
	if p.checks {
		b[len(b)-1] = 1
	}
}

func readPeer(b []byte) peer {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return peer{pid: int(word(0)), started: word(1), machine: word(2), limit: time.Duration(word(3)),
		host: strings.TrimRight(string(b[32:len(b)-1]), "\x00"), checks: b[len(b)-1] == 1}
}

// ended returns the fault of a rank whose process on this machine has ended.
func (p *peers) ended(self int, c comm.Call) *comm.Fault {
	for rank, q := range p.all {
		if rank == self || !q.here(p.all[self]) {
			continue
		}
		if state, started, ok := processState(q.pid); !ok || started != q.started || strings.ContainsRune("ZX", state) {
			return &comm.Fault{Peer: rank, Err: comm.ErrPeer, Detail: fmt.Sprintf("%v waits for process %d on %s, which has ended", c, q.pid, q.host)}
		}
	}
	return nil
}

// here reports whether the process can be looked at from another one.
func (p peer) here(other peer) bool { return p.started != 0 && p.machine == other.machine }

// state says for an error what is known of a rank's process.
func (p *peers) state(rank int) string {
	if rank >= len(p.all) {
		return ""
	}
	q := p.all[rank]
	text := fmt.Sprintf(" (process %d on %s", q.pid, q.host)
	if state, started, ok := processState(q.pid); ok && started == q.started && strings.ContainsRune("Tt", state) {
		text += ", which is stopped"
	}
	return text + ")"
}

// processState is what Linux says of a process: a letter (R running, S sleeping, T stopped, Z ended), and when it was started. It is not ok
// if there is none, or on other systems.
func processState(pid int) (state rune, started uint64, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	_, rest, found := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return 0, 0, false
	}
	started, err = strconv.ParseUint(fields[19], 10, 64)
	return rune(fields[0][0]), started, err == nil
}
