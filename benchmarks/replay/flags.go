package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/command"
)

// compaction is the setting of -allocator compact, shared and planned, unless -conf has another.
const compaction = 1.02

// options are the flags.
type options struct {
	trace, conf, plot, expect, all string
	capacity                       uint64   // 0 if not given
	fraction                       *float64 // nil if not given; the allocator checks its range
	direct                         bool     // without a cache
	compact, planned, shared       bool
	device                         device.Kind
	json                           bool
	given                          map[string]bool // by flag name
}

func (o *options) parse(args []string, stderr io.Writer) error {
	o.device, o.given = device.Sim, map[string]bool{}
	f := command.NewFlagSet("replay", stderr)
	f.StringVar(&o.trace, "trace", "", "`file` of the trace, plain or gzipped")
	f.Func("capacity", "`bytes` of the device, such as 80GiB (80GiB; with -device host the machine's memory)", o.setCapacity)
	f.StringVar(&o.conf, "conf", "", "allocator `settings` in PyTorch's form, \"key:value,...\"")
	f.Func("fraction", "`fraction` of the device's memory that the allocator may reserve, from 0 to 1", o.setFraction)
	f.Func("allocator", "`caching`, which is the default; compact: with pages that move; shared: that, and memory that changes its stream; planned: compact, and a plan whose steps begin at the marks; naive: a driver call for each request", o.setAllocator)
	f.Func("device", "`sim`, which is the default, or host: real memory, of which nobody touches a byte", o.setDevice)
	f.BoolVar(&o.json, "json", false, "write one JSON object with the keys of an expected file")
	command.OutputVar(f, &o.plot, "plot", "draw allocated and reserved memory over time into this `file`, .png or .svg")
	f.StringVar(&o.expect, "expect", "", "compare with this expected `file`; capacity, conf and fraction are its unless given")
	f.StringVar(&o.all, "all", "", "compare all files in `folder`/expected with the traces in the folder; takes no other flags")
	if err := command.Parse(f, args); err != nil {
		return err
	}
	f.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
	return o.check(f.Args())
}

// check finds what the flags do not say together.
func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case o.all != "" && len(o.given) > 1:
		return errors.New("-all takes no other flags")
	case o.all == "" && o.trace == "":
		return errors.New("-trace or -all is missing")
	case o.expect != "" && o.compact:
		return errors.New("-expect is for -allocator caching and naive: expected files have what an allocator with these settings did")
	}
	if ext := strings.ToLower(filepath.Ext(o.plot)); o.plot != "" && ext != ".png" && ext != ".svg" {
		return fmt.Errorf("-plot %s: the name must end in .png or .svg", o.plot)
	}
	return nil
}

// adopt takes from an expected file's configuration what was not given.
func (o *options) adopt(c replay.Config) {
	if !o.given["capacity"] {
		o.capacity = c.Capacity
	}
	if !o.given["conf"] {
		o.conf = c.AllocConf
	}
	if !o.given["fraction"] {
		o.fraction = c.Fraction
	}
}

func (o *options) setCapacity(text string) (err error) {
	o.capacity, err = device.ParseBytes(text)
	if err == nil && o.capacity == 0 {
		err = errors.New("must be more than 0")
	}
	return err
}

func (o *options) setFraction(text string) error {
	part, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errors.New("want a number from 0 to 1")
	}
	o.fraction = &part
	return nil
}

func (o *options) setAllocator(text string) error {
	switch text {
	case "caching", "naive", "compact", "planned", "shared":
	default:
		return errors.New("want caching, compact, shared, planned or naive")
	}
	o.direct, o.planned, o.shared = text == "naive", text == "planned", text == "shared"
	o.compact = o.planned || o.shared || text == "compact"
	return nil
}

func (o *options) setDevice(text string) error {
	for _, kind := range []device.Kind{device.Sim, device.Host} {
		if text == kind.String() {
			o.device = kind
			return nil
		}
	}
	return errors.New("want sim or host")
}
