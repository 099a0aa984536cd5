// Command replay runs a recorded allocation trace through Cistern's allocator, on a simulated device or on the host, and
// reports what PyTorch's allocator reports for the same trace: statistics, driver calls, a hash of every decision, and the
// state over time. It answers two questions: how much memory would this program take under these settings, and does the
// allocator decide as PyTorch's does?
//
//	go run ./benchmarks/replay -trace gpt.trace.gz -capacity 80GiB -conf expandable_segments:True
//	go run ./benchmarks/replay -trace gpt.trace.gz -plot memory.svg
//	go run ./benchmarks/replay -trace gpt.trace.gz -expect gpt.tight.json.gz
//	go run ./benchmarks/replay -all benchmarks/internal/replay/testdata
//
// Traces are described by package internal/trace, expected files by the README in benchmarks/internal/replay/testdata.
//
// The exit code is 0 if all went well and all was equal, 1 if not, 2 for wrong flags.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

func main() { command.Main("replay", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error or a difference, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("replay", stderr, func() error { return o.parse(args, stderr) }, func() error {
		if o.all != "" {
			return replayAll(o.all, stdout)
		}
		return o.replayOne(stdout)
	})
}

// replayOne replays one trace, writes what was found, and compares it with the expected file if there is one.
func (o *options) replayOne(stdout io.Writer) error {
	var expected *replay.Expected
	if o.expect != "" {
		var err error
		if expected, err = replay.OpenExpected(o.expect); err != nil {
			return err
		}
		o.adopt(expected.Config)
	}
	config, err := memory.ParseConfig(o.conf)
	if err != nil {
		return err
	}
	if o.shared {
		config.WaitOnDevice, config.CrossStreamReclaim, config.SearchAfterSync = true, true, true
	}
	if o.compact {
		config.ExpandableSegments, config.Compaction = true, cmp.Or(config.Compaction, compaction)
		o.conf = config.String()
	}
	t, err := trace.Open(o.trace)
	if err != nil {
		return err
	}
	r, err := o.measure(t, config)
	if err != nil {
		return err
	}
	r.Config.AllocConf = o.conf
	if expected != nil {
		r.Config.Name = expected.Config.Name
	}
	if err := o.report(stdout, t, r); err != nil || expected == nil {
		return err
	}
	return o.compare(stdout, expected, r)
}

// measure replays t for its numbers, and if there is to be a plot for that, and once more for the time.
func (o *options) measure(t *trace.Trace, config memory.Config) (*replay.Result, error) {
	ro := replay.Options{Capacity: o.capacity, Config: config, Fraction: o.fraction, Device: o.device,
		Direct: o.direct, Planned: o.planned}
	if ro.Capacity == 0 && ro.Device == device.Sim {
		ro.Capacity = 80 * device.GiB
	}
	c := newCurve(t)
	if o.plot != "" {
		ro.After = c.after
	}
	r, err := replay.Run(t, ro)
	if err != nil {
		return nil, err
	}
	if o.plot != "" {
		if err := c.save(o.plot, r); err != nil {
			return nil, err
		}
	}
	var steady float64
	r.NsPerPair, steady, err = replay.Time(t, ro)
	if r.Steady != nil {
		r.Steady.NsPerPair = steady
	}
	return r, err
}

func (o *options) report(stdout io.Writer, t *trace.Trace, r *replay.Result) error {
	if !o.json {
		return writeTable(stdout, t, r, o.direct)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n", raw)
	return err
}

// compare says on stdout that all is equal, if that is not the place of a JSON object, or returns the first difference.
func (o *options) compare(stdout io.Writer, expected *replay.Expected, r *replay.Result) error {
	differences, err := expected.Differences(r)
	if err != nil {
		return err
	}
	if n := len(differences); n > 0 {
		return fmt.Errorf("differs from %s, first of %d: %s", o.expect, n, differences[0])
	}
	if !o.json {
		_, err = fmt.Fprintf(stdout, "\nequal to %s\n", o.expect)
	}
	return err
}
