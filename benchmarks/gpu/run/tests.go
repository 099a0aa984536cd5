package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tests is a step that runs a binary of tests. An error that loses the device fails all tests behind it: they run again, in a new process,
// without the one in which it showed, as long as that shows more that pass; four times at most.
func tests(binary string, args func(r *runner) []string) func(*runner, context.Context, *step, time.Duration) {
	return func(r *runner, ctx context.Context, s *step, limit time.Duration) {
		if r.device != "cuda:0" && r.device != "cuda" {
			r.skip(s, "tests run on cuda:0")
			return
		}
		end := time.Now().Add(limit)
		var without []string
		most := -1
		for round := 1; round <= 5; round++ {
			name := s.name
			if round > 1 {
				name = fmt.Sprintf("%s-%d", s.name, round)
			}
			left := time.Until(end)
			if left < least {
				return // what the rounds before have found is there
			}
			ok := r.one(ctx, r.testProcess(name, binary, left, without, args))
			text := r.log(name)
			passed, lost := strings.Count(text, "--- PASS"), lostIn(text)
			if ok || lost == "" || passed <= most || slices.Contains(without, lost) {
				return
			}
			most = passed
			without = append(without, lost)
		}
	}
}

// passedTests says what is missing in the log of tests that are said to have passed.
func passedTests(name string) func(*runner) string {
	return func(r *runner) string {
		log := r.log(name)
		switch {
		case !strings.Contains(log, "--- PASS"):
			return "no test passed: nothing was tested"
		case !strings.HasSuffix(strings.TrimSpace(log), "PASS"):
			return "the tests did not come to their end"
		}
		return ""
	}
}

func (r *runner) testProcess(name, binary string, limit time.Duration, without []string, args func(*runner) []string) process {
	argv := []string{binary + ".test", "-test.run", "^TestGPU", "-test.v", "-test.timeout", "0"}
	if args != nil {
		argv = append(argv, args(r)...)
	}
	if r.quick {
		argv = append(argv, "-test.short")
	}
	if r.quick && binary == "kernels_cuda" {
		without = append(without[:len(without):len(without)], "SameBits") // it takes minutes on the emulated driver
	}
	if len(without) > 0 {
		argv = append(argv, "-test.skip", strings.Join(without, "|"))
	}
	return process{name: name, folder: filepath.Join(r.bundle, "tests", binary), argv: append(argv, added("TEST_ARGS")...), limit: limit,
		passes: passedTests(name)}
}

// log is what a command has written.
func (r *runner) log(name string) string {
	text, err := os.ReadFile(filepath.Join(r.logs, name+".log"))
	if err != nil {
		return ""
	}
	return string(text)
}

var (
	begun  = regexp.MustCompile(`(?m)^=== RUN +(\S+)`)
	losing = regexp.MustCompile(`CUDA_ERROR_(ILLEGAL|LAUNCH_FAILED|LAUNCH_TIMEOUT|MISALIGNED|HARDWARE|INVALID_(ADDRESS_SPACE|PC)|ASSERT|ECC|CONTAINED|TENSOR)`)
)

// lostIn is a pattern for the test of a log in which the first error was that loses the device, "" if there was none. It names three parts
// of the test's name: of a test with cases, the case.
func lostIn(log string) string {
	at := losing.FindStringIndex(log)
	if at == nil {
		return ""
	}
	names := begun.FindAllStringSubmatch(log[:at[0]], -1)
	if len(names) == 0 {
		return ""
	}
	parts := strings.Split(names[len(names)-1][1], "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts[:min(3, len(parts))], "/")
}

var summed = regexp.MustCompile(`[A-Z]+ SUMMARY: .*`)

// counted says how many tests a log names, how many of them failed or were skipped, and what a sanitizer sums up. Behind an error that
// loses the device all fail, and do not count.
func counted(log string) (remark string) {
	after := ""
	if lost := lostIn(log); lost != "" {
		after = "; then the device was lost in " + strings.NewReplacer("^", "", "$", "", `\`, "").Replace(lost)
		log = log[:losing.FindStringIndex(log)[0]]
	}
	pass, fail, skip := strings.Count(log, "--- PASS"), strings.Count(log, "--- FAIL"), strings.Count(log, "--- SKIP")
	if pass+fail+skip > 0 {
		remark = fmt.Sprintf("%d passed, %d failed, %d skipped", pass, fail, skip)
	}
	if all := summed.FindAllString(log, -1); len(all) > 0 {
		remark += "; " + all[len(all)-1]
	}
	return remark + after
}

var begunOrEnded = regexp.MustCompile(`(?m)^(?:=== RUN +(\S+)| *--- (?:PASS|FAIL|SKIP): (\S+))`)

// unfinished is the last test that a log says has begun, if it does not say that it has ended.
func unfinished(log string) string {
	ended := map[string]bool{}
	last := ""
	for _, m := range begunOrEnded.FindAllStringSubmatch(log, -1) {
		if m[1] != "" {
			last = m[1]
		} else {
			ended[m[2]] = true
		}
	}
	if ended[last] {
		return ""
	}
	return last
}

// added are the arguments in a variable of the environment, for who wants to try something on the machine itself.
func added(variable string) []string { return strings.Fields(os.Getenv(variable)) }
