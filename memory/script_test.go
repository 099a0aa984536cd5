package memory

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata/script print into their files")

// The files of testdata/script are stories with pictures. Paragraphs of commands end in ---- and what they print, which is
// what commands say and the segments as they stand then. Lines that begin with # explain.
//
//	device SIZE         makes a new device and allocator; without it, 1GiB
//	conf KEY:VALUE,...  changes the settings
//	limit SIZE|off      sets the memory limit
//	occupy SIZE         other processes hold so much of the device
//	alloc NAME SIZE sN  allocates on a stream; s0 may be left out
//	record NAME sN      work on a stream uses the block
//	free NAME           frees it; later NAME queues the free
//	complete sN         the work enqueued on a stream so far finishes
//	empty               gives the cache back
//	stats KEY           prints a statistic
//	driver              prints the driver calls since the last time
//
// go test ./memory -run Script -rewrite writes the output anew: the change of policy is then the diff.
func TestScript(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			want := strings.ReplaceAll(string(raw), "\r\n", "\n")
			got := runScript(t, want)
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, want, got)
		})
	}
}

// script is a run of one file.
type script struct {
	*rig
	blocks map[string]Block
	out    strings.Builder
}

// runScript returns the text with the output as it is now.
func runScript(t *testing.T, text string) string {
	s := &script{rig: newRig(t, gib, "")}
	s.blocks = map[string]Block{}
	var result []string
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		commands, _, isRun := strings.Cut(paragraph, "\n----")
		if !isRun {
			result = append(result, paragraph)
			continue
		}
		s.out.Reset()
		for _, line := range strings.Split(commands, "\n") {
			if words := strings.Fields(line); len(words) > 0 && words[0][0] != '#' {
				s.run(words[0], words[1:])
			}
		}
		picture := s.a.picture()
		if picture == "" {
			picture = "no segments\n"
		}
		result = append(result, commands+"\n----\n"+s.out.String()+strings.TrimSuffix(picture, "\n"))
	}
	return strings.Join(result, "\n\n") + "\n"
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// run does one command.
func (s *script) run(command string, args []string) {
	s.t.Helper()
	arg := func(i int) string {
		require.Less(s.t, i, len(args), "%s: an argument is missing", command)
		return args[i]
	}
	switch command {
	case "device":
		s.rig = newRig(s.t, s.size(arg(0)), "")
	case "conf":
		s.conf(arg(0))
	case "limit":
		s.a.SetMemoryLimit(s.size(arg(0)))
	case "occupy":
		s.dev.Occupy(s.size(arg(0)))
	case "alloc":
		s.allocNamed(arg(0), s.size(arg(1)), s.streamNumber(args[2:]))
	case "record":
		s.report(arg(0), s.a.RecordStream(s.block(arg(0)), s.stream(s.streamNumber(args[1:]))))
	case "free":
		s.report(arg(0), s.a.Free(s.block(arg(0))))
	case "later":
		s.a.FreeLater(s.block(arg(0)))
	case "complete":
		s.complete(s.streamNumber(args))
	case "empty":
		s.report("empty", s.a.EmptyCache())
	case "stats":
		all := maps.Collect(s.a.Stats().Flat())
		require.Contains(s.t, all, arg(0))
		s.printf("%s %d", arg(0), all[arg(0)])
	case "driver":
		s.printf("driver: %s", driverText(s.takeLog()))
	default:
		require.Fail(s.t, "unknown command "+command)
	}
	s.check()
}

// driverText puts log lines into one, with sizes as in pictures: "P 0 20MiB 20MiB" is a page of segment 0 at 20 MiB mapped.
func driverText(log []string) string {
	if len(log) == 0 {
		return "nothing"
	}
	for i, line := range log {
		words := strings.Fields(line)
		numbers := 1 // the segment comes first, except when there is none
		if words[0] == "X" || words[0] == "x" {
			numbers = 0
		}
		for j, word := range words[1+numbers:] {
			n, _ := strconv.ParseUint(word, 10, 64)
			words[1+numbers+j] = strings.ReplaceAll(pictureBytes(n), " ", "")
		}
		log[i] = strings.Join(words, " ")
	}
	return strings.Join(log, ", ")
}

func (s *script) allocNamed(name string, bytes uint64, stream int) {
	b, err := s.a.Alloc(bytes, s.stream(stream))
	s.report(name, err)
	if err == nil {
		s.blocks[name] = b
	}
}

// report prints the error of a command, without addresses.
func (s *script) report(name string, err error) {
	for _, sentinel := range []error{ErrLimit, ErrDeviceFull, ErrDoubleFree, ErrUseAfterFree} {
		if errors.Is(err, sentinel) {
			s.printf("%s: %v", name, sentinel)
			return
		}
	}
	if err != nil {
		s.printf("%s: %v", name, err)
	}
}

func (s *script) block(name string) Block {
	s.t.Helper()
	b, ok := s.blocks[name]
	require.True(s.t, ok, "no block %s", name)
	return b
}

func (s *script) size(text string) uint64 {
	s.t.Helper()
	if text == "off" {
		return 0
	}
	n, err := device.ParseBytes(text)
	require.NoError(s.t, err)
	return n
}

// streamNumber reads "s2"; nothing is s0.
func (s *script) streamNumber(args []string) int {
	s.t.Helper()
	if len(args) == 0 {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimPrefix(args[0], "s"))
	require.NoError(s.t, err)
	return n
}
