// Package viewer has the page that draws an allocator's memory, viewer.html: one file with its style and script, which needs no network
// and no build. With data in it, it is a snapshot to send to somebody; otherwise it asks the server that it came from, once a second.
package viewer

import (
	_ "embed" // the page
	"io"
	"strings"
)

//go:embed viewer.html
var page string

// Where the page has something put in. The data is JSON in which < is escaped, so that it cannot end its element.
const (
	dataMark   = "<!--data-->"
	policyMark = "<!--policy-->"
	dataBegin  = `<script type="application/json" id="data">`
	firstBegin = `<script type="application/json" id="first">`
	dataEnd    = "</script>"
)

// WritePage writes the page that asks its server. First is the answer that it draws until it has asked, nil for none.
func WritePage(w io.Writer, first []byte) error {
	p := cut(page)
	before, after := strings.Replace(p.before, policyMark, "", 1), p.after
	if first != nil {
		before, after = before+firstBegin, dataEnd+after
	}
	if _, err := io.WriteString(w, before); err != nil {
		return err
	}
	if _, err := w.Write(first); err != nil {
		return err
	}
	_, err := io.WriteString(w, after)
	return err
}

// Policy is the Content-Security-Policy of the page: nothing runs but its own script, and nothing is asked for but from its
// server.
func Policy() string {
	return policy + "; connect-src 'self'; frame-ancestors 'none'; form-action 'none'"
}

// Write writes the page with data, which json writes.
func Write(w io.Writer, json func(io.Writer) error) error {
	p := cut(page)
	before := strings.Replace(p.before, policyMark, `<meta http-equiv="Content-Security-Policy" content="`+policy+`">`, 1)
	if _, err := io.WriteString(w, before+dataBegin); err != nil {
		return err
	}
	if err := json(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, dataEnd+p.after)
	return err
}

// parts are the page at the place of its data.
type parts struct{ before, after string }

func cut(page string) parts {
	before, after, _ := strings.Cut(page, dataMark)
	return parts{before, after}
}

// What the policy allows: the page's one script and its one style, by their hashes. They are written down and not computed, so that
// no program links cryptography for them; a test compares them with the page.
const (
	scriptHash = "sha256-GWoLmNZrqKVumgJwrRY4X/c0z0yx5FbmkMy+DQF7JRg="
	styleHash  = "sha256-VSuLRXuZCdUL9q0l/KUhFZTKYsPq2Dh1A7bWdEl0k2E="
)

const policy = "default-src 'none'; script-src '" + scriptHash + "'; style-src '" + styleHash + "'; img-src data:; base-uri 'none'"
