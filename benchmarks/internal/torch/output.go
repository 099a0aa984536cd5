package torch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Cut is why a script ended too early, by its time limit or an error. What it had written before is in Run's out.
type Cut struct{ Err error }

func (c *Cut) Error() string { return "cut short: " + c.Err.Error() }
func (c *Cut) Unwrap() error { return c.Err }

// Says is what a table says of PyTorch after Run: its version, with what cut it short, or why it was left out; and whether there
// are numbers.
func Says(version string, err error) (string, bool) {
	var cut *Cut
	switch {
	case err == nil:
		return version, true
	case errors.As(err, &cut):
		return version + "; " + cut.Error(), true
	}
	return "left out: " + err.Error(), false
}

// output is what a script wrote, as one object.
type output map[string]json.RawMessage

// parse puts the objects of a text together, up to the first that cannot be read.
func parse(text []byte) (output, error) {
	d, all := json.NewDecoder(bytes.NewReader(text)), output{}
	for {
		var o output
		if err := d.Decode(&o); errors.Is(err, io.EOF) && len(all) > 0 {
			return all, nil
		} else if err != nil {
			return all, err
		}
		for name, value := range o {
			all.add(name, value)
		}
	}
}

// add adds a field: to a list the elements of another, instead of anything else.
func (o output) add(name string, value json.RawMessage) {
	var old, more []json.RawMessage
	if json.Unmarshal(o[name], &old) == nil && json.Unmarshal(value, &more) == nil && old != nil {
		if both, err := json.Marshal(append(old, more...)); err == nil {
			value = both
		}
	}
	o[name] = value
}

// results are how many there are.
func (o output) results() int {
	var list []json.RawMessage
	if json.Unmarshal(o["results"], &list) != nil {
		return 0
	}
	return len(list)
}

// skipped is why a script wrote no numbers, and whether another Python may do better.
func (o output) skipped() (why string, none bool) {
	if json.Unmarshal(o["skipped"], &why) != nil || json.Unmarshal(o["none"], &none) != nil {
		return why, false
	}
	return why, none
}

func (o output) read(out any) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}
