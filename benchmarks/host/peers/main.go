// Command peers is the side of other Go libraries in benchmarks/host. It is a module of its own, so that nobody who imports the library gets theirs.
//
//	peers gomlx|gorgonia
//
// It reads lines with the name of a case, a tab and a number of calls, and answers each with a JSON object of what one of the calls took: Processor and Wall in
// seconds. The case without a name does nothing; its answer has Cases, the names that the library has. GOMAXPROCS says how many threads there are.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// answer is what a call took.
type answer struct {
	Processor, Wall float64
	Cases           []string `json:",omitempty"`
}

// libraries are the cases of each: what makes ready for one, and returns the call.
var libraries = map[string]map[string]func() (func() error, error){
	"gomlx":    {"step mlp": gomlxMLP},
	"gorgonia": {"step mlp": gorgoniaMLP},
}

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 1 || libraries[args[0]] == nil {
		return fmt.Errorf("want gomlx or gorgonia, not %q", args)
	}
	cases, calls, out := libraries[args[0]], map[string]func() error{}, json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // libraries print to it
	var names []string
	for name := range cases {
		names = append(names, name)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		name, count, _ := strings.Cut(lines.Text(), "\t")
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		if name == "" {
			if err := out.Encode(answer{Cases: names}); err != nil {
				return err
			}
			continue
		}
		if calls[name] == nil {
			if calls[name], err = ready(cases, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		a, err := timed(calls[name], n)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

// ready makes a call, and does it once: compilers compile then.
func ready(cases map[string]func() (func() error, error), name string) (func() error, error) {
	if cases[name] == nil {
		return nil, fmt.Errorf("no such case")
	}
	call, err := cases[name]()
	if err != nil {
		return nil, err
	}
	return call, call()
}

// timed is what one of n calls takes.
func timed(call func() error, n int) (answer, error) {
	n = max(n, 1)
	begun, start := processorTime(), time.Now()
	for range n {
		if err := call(); err != nil {
			return answer{}, err
		}
	}
	wall, ended := time.Since(start), processorTime()
	return answer{Processor: (ended - begun).Seconds() / float64(n), Wall: wall.Seconds() / float64(n)}, nil
}

// processorTime is the time that all threads of this process have computed.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
