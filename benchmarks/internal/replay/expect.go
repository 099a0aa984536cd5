package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/memory"
)

// Expected is a file of numbers that PyTorch's allocator gave for a trace.
type Expected struct {
	Trace   string // file name
	Config  Config
	figures map[string]any
}

// rowFigures are lists of rows in the order of events; figures are all others that are compared.
var (
	rowFigures = []string{"ooms", "series", "marks"}
	figures    = []string{"hash", "events", "allocs", "frees", "record_streams", "requested_bytes", "live_peak", "driver", "stats",
		"final"}
)

// OpenExpected reads a file of recorded numbers, plain or gzipped. One that lacks a number that is compared, or is no such
// file at all, is an error.
func OpenExpected(name string) (*Expected, error) {
	raw, err := readFile(name)
	if err != nil {
		return nil, err
	}
	e := &Expected{}
	if e.figures, err = decode(raw); err != nil {
		return nil, fmt.Errorf("%s is no file of recorded figures: %w", name, err)
	}
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, fmt.Errorf("%s is no file of recorded figures: %w", name, err)
	}
	for _, key := range slices.Concat([]string{"trace", "config"}, figures, rowFigures) {
		if e.figures[key] == nil {
			return nil, fmt.Errorf("%s is no file of recorded figures: it has no %q", name, key)
		}
	}
	return e, nil
}

func readFile(name string) ([]byte, error) {
	raw, err := os.ReadFile(name)
	if err != nil || !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return raw, err
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if raw, err = io.ReadAll(z); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return raw, nil
}

// decode keeps numbers as they are written: all of them are compared to the last digit.
func decode(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the first JSON object")
	}
	return m, nil
}

// Options are those of the recording: capacity, settings and memory fraction. The error is that of memory.ParseConfig.
func (e *Expected) Options() (Options, error) {
	c, err := memory.ParseConfig(e.Config.AllocConf)
	if err != nil {
		return Options{}, err
	}
	return Options{Capacity: e.Config.Capacity, Config: c, Fraction: e.Config.Fraction}, nil
}

// Differences lists the numbers in which r differs from the recorded ones, in the order in which a reader wants them: what
// is known to have happened first comes first, then totals. Of each list of samples the first that differs stands for the
// ones after it.
func (e *Expected) Differences(r *Result) ([]Difference, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	got, err := decode(raw)
	if err != nil {
		return nil, err
	}
	var c comparison
	for _, key := range rowFigures {
		names, _ := e.figures[key+"_columns"].([]any)
		c.rows(key, names, e.figures[key], got[key])
	}
	slices.SortStableFunc(c.found, func(x, y Difference) int { return x.Event - y.Event })
	for _, key := range figures {
		c.value(key, e.figures[key], got[key])
	}
	if e.orderUndefined() {
		c.found = slices.DeleteFunc(c.found, Difference.unordered)
	}
	return c.found, nil
}

// orderUndefined: in these recordings PyTorch walked a hash map of streams in an order that nothing prescribes, on which the
// history of inactive splits depends.
func (e *Expected) orderUndefined() bool {
	switch e.Config.Name {
	case "tight", "tight_maxsplit32", "oom", "frac_oom":
		return strings.HasPrefix(e.Trace, "syn_pingpong")
	}
	return false
}

// unordered: the number depends on that order.
func (d Difference) unordered() bool {
	return strings.HasPrefix(d.Path, "stats.inactive_split") && !strings.HasSuffix(d.Path, ".current")
}

// Peak is the recorded peak of one of the statistics in bytes, such as "allocated_bytes", of both pools together.
func (e *Expected) Peak(statistic string) (int64, error) {
	at := any(e.figures)
	for _, key := range []string{"stats", statistic, "all", "peak"} {
		m, ok := at.(map[string]any)
		if !ok || m[key] == nil {
			return 0, fmt.Errorf("%s: no recorded figure stats.%s.all.peak", e.Trace, statistic)
		}
		at = m[key]
	}
	n, ok := at.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%s: stats.%s.all.peak is no number", e.Trace, statistic)
	}
	return n.Int64()
}
