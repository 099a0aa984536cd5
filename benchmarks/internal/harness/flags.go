package harness

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/command"
)

// Flags are those of benchmarks that time calls on a device, beside PyTorch.
type Flags struct {
	Device   string
	Runs     int
	Duration time.Duration // of a run, about
	Python   string
	Limit    time.Duration // of PyTorch
	JSON     string
}

// Define adds the flags to a set. What o has are the defaults of -runs and -duration.
func (o *Flags) Define(f *flag.FlagSet) {
	f.StringVar(&o.Device, "device", "cuda:0", "where to run: cuda:0 or host")
	f.IntVar(&o.Runs, "runs", o.Runs, "`number` of runs of which the median counts")
	f.DurationVar(&o.Duration, "duration", o.Duration, "how long one run takes, about")
	f.StringVar(&o.Python, "python", torch.Python, "Python `program` that may have PyTorch; empty leaves PyTorch out")
	f.DurationVar(&o.Limit, "torch-limit", torch.Limit, "how long PyTorch may take; what it measured until then counts")
	JSON(f, &o.JSON)
}

// JSON defines the flag of the file with all numbers.
func JSON(f *flag.FlagSet, to *string) {
	command.OutputVar(f, to, "json", "`file` that gets all figures")
}

// Check refuses values that no benchmark takes, and arguments.
func (o *Flags) Check(f *flag.FlagSet) error {
	if f.NArg() > 0 || o.Runs < 1 || o.Duration <= 0 || o.Limit <= 0 {
		return errors.New("want -runs of at least 1, a -duration and -torch-limit of more than 0, and no arguments")
	}
	return nil
}

// List reads what is between the commas of the value of a flag.
func List[T any](flag, text string, read func(string) (T, error)) (list []T, err error) {
	for _, s := range strings.Split(text, ",") {
		v, err := read(s)
		if err != nil {
			return nil, fmt.Errorf("-%s: %w", flag, err)
		}
		list = append(list, v)
	}
	return list, nil
}

// FloatType is the floating-point type of a name.
func FloatType(name string) (dtype.DType, error) {
	for _, d := range dtype.All() {
		if d.String() == name && d.IsFloat() {
			return d, nil
		}
	}
	return dtype.Invalid, fmt.Errorf("%q is no float type", name)
}

// Numbers reads numbers that are at least least from a text such as 64x3x3, as many as there are pointers, and reports whether it could.
func Numbers(text string, least int, to ...*int) bool {
	parts := strings.Split(text, "x")
	if len(parts) != len(to) {
		return false
	}
	for i := range to {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < least {
			return false
		}
		*to[i] = n
	}
	return true
}
