package nccl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/internal/ranktest"
	"github.com/stretchr/testify/require"
)

// The ranks of these tests are processes: this test binary, whose TestMain runs a rank instead of the tests where the environment names a program.
const (
	programVariable   = "CISTERN_NCCL_TEST_PROGRAM"
	argumentsVariable = "CISTERN_NCCL_TEST_ARGUMENTS"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(programVariable); name != "" {
		os.Exit(rankMain(name))
	}
	os.Exit(m.Run())
}

// arguments are what the test tells a rank.
type arguments struct {
	Driver, Folder string
	Rank, Size     int
	Address        string // ByAddress, if it is not ""
	TimeLimit      time.Duration
	Fault          string // what happens to rank Victim, after some sums
	Victim         int
}

// outcome is how a rank has ended.
type outcome struct {
	Text, Kind, Operation string
	Peer                  int
	Live                  uint64 // bytes of the device that are in use
	Seconds               float64
}

var kinds = map[string]error{"aborted": comm.ErrAborted, "timeout": comm.ErrTimeout, "mismatch": comm.ErrMismatch, "peer": comm.ErrPeer, "library": comm.ErrLibrary}

// rankMain is one rank, which writes its outcome into a file.
func rankMain(program string) int {
	var a arguments
	if err := json.Unmarshal([]byte(os.Getenv(argumentsVariable)), &a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	all, err := cuda.OpenLibrary(a.Driver)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	d := all[0]
	o := outcome{Peer: -1}
	began := time.Now()
	err = programs[program](d, a)
	o.Seconds = time.Since(began).Seconds()
	if err != nil {
		o.Text = err.Error()
		for kind, sentinel := range kinds {
			if errors.Is(err, sentinel) {
				o.Kind = kind
			}
		}
		var e *comm.Error
		if errors.As(err, &e) {
			o.Peer, o.Operation = e.Peer, e.Operation
		}
	}
	if info, err := d.MemInfo(); err == nil {
		o.Live = info.Total - info.Free
	}
	b, _ := json.Marshal(o)
	name := filepath.Join(a.Folder, fmt.Sprint("rank", a.Rank))
	if err := errors.Join(os.WriteFile(name+".tmp", b, 0o600), os.Rename(name+".tmp", name+".json"), d.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 4
	}
	return 0
}

var programs = map[string]func(d *cuda.Device, a arguments) error{"suite": suiteProgram, "fault": faultProgram}

func openRank(d *cuda.Device, a arguments) (comm.Comm, error) {
	group := ByFile(a.Rank, a.Size, filepath.Join(a.Folder, "meet"))
	if a.Address != "" {
		group = ByAddress(a.Rank, a.Size, a.Address)
	}
	return Open(d, group, Options{TimeLimit: a.TimeLimit, Library: a.Driver})
}

func suiteProgram(d *cuda.Device, a arguments) error {
	c, err := openRank(d, a)
	if err != nil {
		return err
	}
	return errors.Join(commtest.Suite{Loose: true, Counts: []int{0, 1, 7}}.Check(c), c.Close())
}

// faultProgram makes sums until the group ends. One rank does not survive, or does not go on.
func faultProgram(d *cuda.Device, a arguments) error {
	c, err := openRank(d, a)
	if err != nil {
		return err
	}
	for i := 0; err == nil; i++ {
		if i == 5 && a.Rank == a.Victim {
			if err := os.WriteFile(filepath.Join(a.Folder, "victim"), fmt.Append(nil, os.Getpid()), 0o600); err != nil {
				return err
			}
			switch a.Fault {
			case "kill":
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case "stop":
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			case "exit":
				os.Exit(7)
			case "hang":
				select {}
			}
		}
		err = sums(c, d, 1)
	}
	return errors.Join(err, c.Close())
}

// processes starts ranks of a program, and returns their outcomes by rank, without the victim's, when all others have ended.
func processes(t *testing.T, n int, program string, a arguments, environment ...string) []outcome {
	t.Helper()
	a.Driver, a.Folder, a.Size = fakecuda.Build(t), t.TempDir(), n
	outputs, ended := make([]*bytes.Buffer, n), make(chan int, n)
	for rank := range n {
		a.Rank = rank
		text, err := json.Marshal(a)
		require.NoError(t, err)
		p := ranktest.Start(t, []string{ranktest.Binary(t)}, append([]string{programVariable + "=" + program, argumentsVariable + "=" + string(text)}, environment...)...)
		outputs[rank] = p.Output
		go func() { <-p.Ended; ended <- rank }()
	}
	survivors := n
	if a.Fault != "" {
		survivors--
	}
	for timer := time.After(patient); survivors > 0; {
		select {
		case rank := <-ended:
			if a.Fault == "" || rank != a.Victim {
				survivors--
			}
		case <-timer:
			for rank := range n {
				t.Logf("rank %d: %s", rank, outputs[rank])
			}
			t.Fatal("the ranks have not ended")
		}
	}
	all := make([]outcome, n)
	for rank := range n {
		if a.Fault != "" && rank == a.Victim {
			continue
		}
		b, err := os.ReadFile(filepath.Join(a.Folder, fmt.Sprintf("rank%d.json", rank)))
		require.NoError(t, err, "rank %d: %s", rank, outputs[rank])
		require.NoError(t, json.Unmarshal(b, &all[rank]))
	}
	return all
}

func TestProcesses_PassTheSuite(t *testing.T) {
	for name, address := range map[string]string{"by file": "", "by address": freeAddress(t)} {
		t.Run(name, func(t *testing.T) {
			for rank, o := range processes(t, 2, "suite", arguments{TimeLimit: patient, Address: address}) {
				require.Empty(t, o.Text, "rank %d", rank)
				require.Zero(t, o.Live, "rank %d", rank)
			}
		})
	}
}

// A rank is gone, or does not go on. NCCL hears of it, as over a network, or does not, as between GPUs of one machine.
func TestProcesses_FaultsEndTheSurvivors(t *testing.T) {
	for _, fault := range []struct {
		name, kind string
		limit      time.Duration
	}{
		{"kill", "peer", patient}, {"stop", "peer", time.Second}, {"hang", "timeout", time.Second}, {"exit", "peer", patient},
	}[:fulltests.Or(4, 3)] {
		for _, remote := range []string{"0", "1"}[:fulltests.Or(2, 1)] {
			for _, victim := range []int{1, 0} {
				t.Run(fmt.Sprintf("%s of rank %d, remote %s", fault.name, victim, remote), func(t *testing.T) {
					all := processes(t, 3, "fault", arguments{TimeLimit: fault.limit, Fault: fault.name, Victim: victim}, "FAKECUDA_NCCL_REMOTE="+remote)
					for rank, o := range all {
						if rank == victim {
							continue
						}
						require.Equal(t, fault.kind, o.Kind, "%+v", o)
						require.Equal(t, victim, o.Peer, "%+v", o)
						require.Equal(t, "AllReduce", o.Operation, "%+v", o)
						require.Less(t, o.Seconds, patient.Seconds()/2, "%+v", o)
						require.Zero(t, o.Live, "%+v", o)
					}
				})
			}
		}
	}
}
