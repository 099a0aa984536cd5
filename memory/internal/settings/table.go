// Package settings reads and writes settings in PyTorch's grammar, "key:value,key:[a:b,c:d],...", whatever the settings are.
package settings

import (
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// Setting is one key of the text form of a C: how to read it, and how to write it back.
type Setting[C any] struct {
	Key     string
	Aliases []string
	Parse   func(c *C, value string) (want string) // what is allowed, if the value is not; else ""
	Text    func(c *C) string                      // "" for the default
}

// Table lists the settings in the order in which String writes them.
type Table[C any] struct {
	Settings []Setting[C]
	Fail     func(key, value, want string) error // makes the errors; without a key it is the text that is malformed
}

// Keys lists the keys.
func (t *Table[C]) Keys() []string {
	keys := make([]string, len(t.Settings))
	for i := range t.Settings {
		keys[i] = t.Settings[i].Key
	}
	return keys
}

// Parse reads settings into c. White space is ignored.
func (t *Table[C]) Parse(c *C, text string) error {
	rest := strings.Join(strings.Fields(text), "")
	for rest != "" {
		key, tail, ok := strings.Cut(rest, ":")
		if !ok || key == "" {
			return t.Fail("", text, "expected key:value at "+excerpt.Quote(rest))
		}
		value, next, problem := cutValue(tail)
		if problem != "" {
			return t.Fail("", text, problem+" after "+excerpt.Of(key))
		}
		if key, want := t.set(c, key, value); want != "" {
			return t.Fail(key, value, want)
		}
		rest = next
	}
	return nil
}

// set sets one value. It returns the setting's own name, which errors tell, not an alias.
func (t *Table[C]) set(c *C, key, value string) (name, want string) {
	for i := range t.Settings {
		if s := &t.Settings[i]; s.Key == key || slices.Contains(s.Aliases, key) {
			return s.Key, s.Parse(c, value)
		}
	}
	return key, "unrecognized key; known are " + strings.Join(t.Keys(), ", ")
}

// cutValue splits off the value at the start of s: up to the next comma, or a bracketed list. A trailing comma is legal.
func cutValue(s string) (value, rest, problem string) {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", "a list without ]"
		}
		value, rest = s[:end+1], s[end+1:]
		if rest != "" && rest[0] != ',' {
			return "", "", "expected a comma after ]"
		}
		return value, strings.TrimPrefix(rest, ","), ""
	}
	value, rest, _ = strings.Cut(s, ",")
	if value == "" {
		return "", "", "the value is missing"
	}
	return value, rest, ""
}

// String writes the settings that differ from the defaults in the form that Parse reads.
func (t *Table[C]) String(c *C) string {
	var items []string
	for i := range t.Settings {
		if text := t.Settings[i].Text(c); text != "" {
			items = append(items, t.Settings[i].Key+":"+text)
		}
	}
	return strings.Join(items, ",")
}

// MB is a setting of a number of bytes, written in MiB; 0 is the default.
func MB[C any](key string, field func(*C) *uint64) Setting[C] {
	return Setting[C]{Key: key,
		Parse: func(c *C, value string) string {
			n, ok := ParseMB(value)
			if !ok {
				return "want a positive number of MiB"
			}
			*field(c) = n
			return ""
		},
		Text: func(c *C) string {
			if n := *field(c); n != 0 {
				return MBText(n)
			}
			return ""
		}}
}

// Bool is a setting that is True or False, which is the default.
func Bool[C any](key string, field func(*C) *bool, aliases ...string) Setting[C] {
	return Setting[C]{Key: key, Aliases: aliases,
		Parse: func(c *C, value string) string {
			if value != "True" && value != "False" {
				return "want True or False"
			}
			*field(c) = value == "True"
			return ""
		},
		Text: func(c *C) string {
			if *field(c) {
				return "True"
			}
			return ""
		}}
}
