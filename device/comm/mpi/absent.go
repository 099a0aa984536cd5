package mpi

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/internal/plural"
)

// What is known when MPI has not started in time. MPI_Init waits for all ranks, and says of none that it has not come. The launcher has told this process its number, and how many there are, in the environment. On Linux the
// system shows the processes of this machine's other ranks, with theirs, and which libraries they have loaded: one that has not loaded MPI's has not come to Open. Of other machines nothing is known.

// notStarted is the error of MPI that has not started within the limit.
func (e *engine) notStarted(limit time.Duration) *comm.Error {
	call, _ := e.opening.Load().(string)
	failed := openError(comm.ErrTimeout, "")
	text := fmt.Sprintf("%s of %v (%s) has not returned within %v", call, e.lib.ABI, e.lib.File, limit)
	if host, err := os.Hostname(); err == nil {
		text += " on " + host
	}
	why := "a rank has not come to Open, or is lost"
	if l, ok := launchedBy(os.Getenv); ok {
		text += fmt.Sprintf(", one of %d ranks by %s", l.size, l.by.variable)
		failed.Rank = l.rank
		if known, peer := l.absent("/proc", e.lib.Code()); known != "" {
			why, failed.Peer = why+": "+known, peer
		}
	}
	failed.Detail = text + ": " + why + "; end the process, as MPI cannot be left while it starts"
	return failed
}

// launch is what a launcher has told a process.
type launch struct {
	by         launcherVariables
	rank, size int
	space      string // PMIx's name of the job, which tells its processes from others; "" if it has none
}

// launchedBy reads the environment of a process.
func launchedBy(env func(string) string) (launch, bool) {
	for _, by := range launchers {
		size, wrong := strconv.Atoi(env(by.variable))
		rank, failed := strconv.Atoi(env(by.rank))
		if wrong == nil && failed == nil {
			return launch{by, rank, size, env("PMIX_NAMESPACE")}, true
		}
	}
	return launch{}, false
}

// absent says which ranks of this machine have not loaded the library whose code is at an address, and the one if there is one. "" is that nothing is known.
func (l launch) absent(proc string, code uintptr) (text string, peer int) {
	library := mappedAt(filepath.Join(proc, "self", "maps"), code)
	if library == "" {
		return "", -1
	}
	all := l.mates(proc, library)
	var names []string
	peer = -1
	for rank := range l.size {
		p, seen := all[rank]
		if seen && !p.came {
			names, peer = append(names, fmt.Sprintf("%d (process %d)", rank, p.pid)), rank
		}
		if !seen && rank != l.rank && l.onOneMachine() {
			names, peer = append(names, fmt.Sprintf("%d (no process)", rank)), rank
		}
	}
	switch {
	case len(names) == 1:
		return "of this machine's ranks, rank " + names[0] + " has not loaded the library, as Open does", peer
	case len(names) > 1:
		more := ""
		if len(names) > 8 {
			names, more = names[:8], fmt.Sprintf(" and %d more", len(names)-8)
		}
		return "of this machine's ranks, " + strings.Join(names, ", ") + more + " have not loaded the library, as Open does", -1
	case len(all) > 0:
		return fmt.Sprintf("of this machine's ranks this one, and %s, have loaded the library", plural.Of(len(all), "other")), -1
	}
	return "", -1
}

// onOneMachine reports whether all ranks are on this machine, by the launcher.
func (l launch) onOneMachine() bool {
	return l.by.local != "" && os.Getenv(l.by.local) == strconv.Itoa(l.size)
}

// mate is the process of another rank.
type mate struct {
	pid  int
	came bool // it has loaded the library, or does not say
}

// mates are the processes of this machine that the same launcher has started as other ranks. A rank may have several, as a shell and the program.
func (l launch) mates(proc, library string) map[int]mate {
	all := map[int]mate{}
	entries, _ := os.ReadDir(proc) // other systems have none
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		folder := filepath.Join(proc, entry.Name())
		other, ok := launchedBy(environment(folder))
		if !ok || other.by != l.by || other.size != l.size || other.rank == l.rank || other.space != l.space || l.space == "" && parent(folder) != os.Getppid() {
			continue
		}
		maps, err := os.ReadFile(filepath.Join(folder, "maps"))
		came := err != nil || strings.Contains(string(maps), " "+library+"\n")
		all[other.rank] = mate{max(pid, all[other.rank].pid), came || all[other.rank].came}
	}
	return all
}

// environment is that with which the process of a folder of /proc was started.
func environment(folder string) func(string) string {
	text, _ := os.ReadFile(filepath.Join(folder, "environ")) // of other users' processes nothing is seen
	lines := strings.Split(string(text), "\x00")
	return func(name string) string {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, name+"=") })
		if i < 0 {
			return ""
		}
		return lines[i][len(name)+1:]
	}
}

// parent is the process that has started that of a folder, 0 if that is not known.
func parent(folder string) int {
	text, _ := os.ReadFile(filepath.Join(folder, "stat"))
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		pid, _ := strconv.Atoi(fields[1])
		return pid
	}
	return 0
}

// mappedAt is the file whose memory is at an address of a process, "" if that is not known.
func mappedAt(maps string, address uintptr) string {
	text, _ := os.ReadFile(maps)
	for line := range strings.Lines(string(text)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x", &from, &to); n == 2 && from <= address && address < to {
			if at := strings.IndexByte(line, '/'); at >= 0 {
				return strings.TrimSuffix(line[at:], "\n")
			}
		}
	}
	return ""
}
