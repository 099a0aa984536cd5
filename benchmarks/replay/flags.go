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
)

// options are the flags.
type options struct {
	trace, conf, plot, expect, all string
	capacity                       bytesValue
	fraction                       fractionValue
	allocator                      allocatorValue
	device                         deviceValue
	json                           bool
	given                          map[string]bool // by flag name
}

// parseFlags reads the flags. For -h it writes them to out and returns flag.ErrHelp.
func parseFlags(args []string, out io.Writer) (*options, error) {
	o := &options{allocator: "caching", device: deviceValue{device.Sim}, given: map[string]bool{}}
	fs := flag.NewFlagSet("replay", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run writes the one line
	fs.StringVar(&o.trace, "trace", "", "`file` of the trace, plain or gzipped")
	fs.Var(&o.capacity, "capacity", "`bytes` of the device, such as 80GiB (80GiB; with -device host the machine's memory)")
	fs.StringVar(&o.conf, "conf", "", "allocator `settings` in PyTorch's form, \"key:value,...\"")
	fs.Var(&o.fraction, "fraction", "`fraction` of the device's memory that the allocator may reserve, from 0 to 1")
	fs.Var(&o.allocator, "allocator", "`caching`, or naive: a driver call for each request")
	fs.Var(&o.device, "device", "`sim`, or host: real memory, of which nobody touches a byte")
	fs.BoolVar(&o.json, "json", false, "write one JSON object with the keys of an expected file")
	fs.StringVar(&o.plot, "plot", "", "draw allocated and reserved memory over time into this `file`, .png or .svg")
	fs.StringVar(&o.expect, "expect", "", "compare with this expected `file`; capacity, conf and fraction are its unless given")
	fs.StringVar(&o.all, "all", "", "compare all files in `folder`/expected with the traces in the folder; takes no other flags")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, "usage: replay -trace FILE [flags]\n       replay -all FOLDER")
		fs.SetOutput(out)
		fs.PrintDefaults()
	}
	if err != nil {
		return nil, err
	}
	fs.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
	return o, o.check(fs.Args())
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
	}
	if ext := strings.ToLower(filepath.Ext(o.plot)); o.plot != "" && ext != ".png" && ext != ".svg" {
		return fmt.Errorf("-plot %s: the name must end in .png or .svg", o.plot)
	}
	return nil
}

// adopt takes from an expected file's configuration what was not given.
func (o *options) adopt(c replay.Config) {
	if !o.given["capacity"] {
		o.capacity = bytesValue(c.Capacity)
	}
	if !o.given["conf"] {
		o.conf = c.AllocConf
	}
	if !o.given["fraction"] {
		o.fraction.value = c.Fraction
	}
}

// bytesValue is a flag for a number of bytes, more than 0. Its zero value means that it was not given.
type bytesValue uint64

func (v *bytesValue) String() string { return "" }
func (v *bytesValue) Set(text string) error {
	n, err := device.ParseBytes(text)
	if err == nil && n == 0 {
		err = errors.New("must be more than 0")
	}
	*v = bytesValue(n)
	return err
}

// fractionValue is a flag for a number that may be left out. The allocator checks its range.
type fractionValue struct{ value *float64 }

func (v *fractionValue) String() string { return "" }
func (v *fractionValue) Set(text string) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errors.New("want a number from 0 to 1")
	}
	v.value = &f
	return nil
}

// direct reports whether the allocator has no cache.
func (o *options) direct() bool { return o.allocator == "naive" }

// allocatorValue is "caching" or "naive".
type allocatorValue string

func (v *allocatorValue) String() string { return "" }
func (v *allocatorValue) Set(text string) error {
	if text != "caching" && text != "naive" {
		return errors.New("want caching or naive")
	}
	*v = allocatorValue(text)
	return nil
}

// deviceValue is a kind of device that traces can be replayed on.
type deviceValue struct{ kind device.Kind }

func (v *deviceValue) String() string { return "" }
func (v *deviceValue) Set(text string) error {
	for _, kind := range []device.Kind{device.Sim, device.Host} {
		if text == kind.String() {
			v.kind = kind
			return nil
		}
	}
	return errors.New("want sim or host")
}
