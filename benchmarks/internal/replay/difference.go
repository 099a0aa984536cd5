package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Difference is a number that is not as it was recorded.
type Difference struct {
	Path      string // as in "stats.segment.all.peak" or "series[2].reserved"
	Event     int    // how many events came before, if Timed
	Timed     bool   // the number belongs to a moment
	Got, Want string
}

// String names the number, the moment, and both values.
func (d Difference) String() string {
	at := ""
	if d.Timed {
		at = fmt.Sprintf(" after %d events", d.Event)
	}
	return fmt.Sprintf("%s%s: %s, recorded is %s", d.Path, at, d.Got, d.Want)
}

// comparison collects differences.
type comparison struct{ found []Difference }

// value compares a recorded value with ours. Keys that only we have are no differences.
func (c *comparison) value(path string, want, got any) {
	if object, ok := want.(map[string]any); ok {
		own, _ := got.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(object)) {
			c.value(path+"."+key, object[key], own[key])
		}
		return
	}
	if !reflect.DeepEqual(want, got) {
		c.found = append(c.found, Difference{Path: path, Got: text(got), Want: text(want)})
	}
}

// rows compares two lists of rows and reports the first row that differs. names are those of the columns; a list without
// has columns event, id and bytes.
func (c *comparison) rows(path string, names []any, want, got any) {
	recorded, _ := want.([]any)
	own, _ := got.([]any)
	for i := range recorded {
		if i == len(own) {
			c.length(path, names, recorded[i], fmt.Sprintf("%d entries", len(own)),
				fmt.Sprintf("%d, among them %s", len(recorded), text(recorded[i])))
			return
		}
		if !reflect.DeepEqual(recorded[i], own[i]) {
			c.row(fmt.Sprintf("%s[%d]", path, i), names, recorded[i], own[i])
			return
		}
	}
	if len(own) > len(recorded) {
		next := own[len(recorded)]
		c.length(path, names, next, fmt.Sprintf("%d entries, among them %s", len(own), text(next)), strconv.Itoa(len(recorded)))
	}
}

// length reports that one list ends before the other; next is the first row that only one has.
func (c *comparison) length(path string, names []any, next any, got, want string) {
	d := Difference{Path: path, Got: got, Want: want}
	d.Event, d.Timed = eventOf(next, names)
	c.found = append(c.found, d)
}

// row reports the first column in which two rows differ.
func (c *comparison) row(path string, names []any, want, got any) {
	recorded, _ := want.([]any)
	own, ok := got.([]any)
	d := Difference{Path: path, Got: text(got), Want: text(want)}
	d.Event, d.Timed = eventOf(want, names)
	if ok && len(own) == len(recorded) {
		for i := range recorded {
			if !reflect.DeepEqual(recorded[i], own[i]) {
				d.Path, d.Got, d.Want = path+column(names, i), text(own[i]), text(recorded[i])
				break
			}
		}
	}
	c.found = append(c.found, d)
}

// column is the name of a column as part of a path.
func column(names []any, i int) string {
	if len(names) == 0 {
		names = []any{"event", "id", "bytes"}
	}
	if i < len(names) {
		if name, ok := names[i].(string); ok {
			return "." + name
		}
	}
	return "[" + strconv.Itoa(i) + "]"
}

// eventOf returns how many events came before the moment of a row.
func eventOf(row any, names []any) (int, bool) {
	values, _ := row.([]any)
	at := max(slices.Index(names, any("event")), 0)
	if at >= len(values) {
		return 0, false
	}
	number, _ := values[at].(json.Number)
	n, err := strconv.Atoi(number.String())
	if err != nil {
		return 0, false
	}
	if len(names) == 0 { // an allocation that failed: its number counts itself
		n--
	}
	return n, true
}

// text writes a value as JSON does; a value that is not there is "nothing".
func text(v any) string {
	if v == nil {
		return "nothing"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
