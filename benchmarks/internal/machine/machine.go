// Package machine says where, when and from what a measurement was made: a number without it cannot be compared.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/device/host"
)

// Facts are what every table and every JSON file of a benchmark begins with.
type Facts struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Procs  int    `json:"gomaxprocs"`
	Go     string `json:"go"`             // with operating system and architecture
	Load   string `json:"load,omitempty"` // the load averages at the start, where the system tells them
	Date   string `json:"date"`
	Commit string `json:"commit"` // "unknown" if the build has no version control stamp
}

// Here returns the facts of this machine, this moment and this program.
func Here() Facts {
	return Facts{
		CPU: host.Default().Properties().Name, Cores: runtime.NumCPU(), Procs: runtime.GOMAXPROCS(0),
		Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, Load: load(),
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit(),
	}
}

// String is one line.
func (f Facts) String() string {
	s := fmt.Sprintf("%s, %d cores, GOMAXPROCS %d, %s, %s, commit %s", f.CPU, f.Cores, f.Procs, f.Go, f.Date, f.Commit)
	if f.Load != "" {
		s += ", load " + f.Load
	}
	return s
}

// load is the system's load over 1, 5 and 15 minutes, on Linux.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return ""
	}
	return strings.Join(fields[:3], " ")
}

// Commit is what -ldflags "-X" sets for builds without a version control stamp.
var Commit = ""

// commit is the revision that this program was built from, with "+changes" if the tree had more than that.
func commit() string {
	if Commit != "" {
		return Commit
	}
	revision, changes := "unknown", ""
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return revision
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changes = "+changes"
		}
	}
	return revision + changes
}
