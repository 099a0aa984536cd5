package memreport

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/device"
)

// colors are those of the categories, in their order: of Okabe and Ito's palette, which is told apart by all. On black those that are dark are lighter.
var colors, darkColors = [...]string{"#0072b2", "#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#999999"},
	[...]string{"#3d9be0", "#e69f00", "#8fd0f7", "#1fb88d", "#d98fb8", "#ea7a2e", "#8b949e"}

// The picture, in pixels.
const (
	svgMargin  = 24
	svgBars    = 560 // of the longest
	svgSizes   = 150 // right of them
	svgRow     = 22
	svgShown   = 30  // modules
	svgLetter  = 6.7 // width of a letter of a path, in 11 pixels of a font with fixed width
	svgNote    = 7   // width of a letter of a note, at most
	svgLongest = 100 // letters of a path
	svgColumns = 4   // of the legend
)

// picture is an SVG in the making.
type picture struct {
	strings.Builder
	left  int // the edge of the bars
	y     int // of what comes next
	notes int // the width of the widest
}

// WriteSVG draws what was allocated at the peak as a picture: a bar for everything, and one for each of the 30 largest modules, divided into
// categories. The bars of modules have a scale of their own, which is written above them, and each has its share of everything beside it. The picture is
// dark where the reader's system is.
func (r *Report) WriteSVG(w io.Writer) error {
	if err := r.writable("WriteSVG", w); err != nil {
		return err
	}
	list, rest := r.Modules, Row{}
	if len(list) > svgShown {
		for _, row := range list[svgShown:] {
			rest.sum(row)
		}
		rest.Operation = fmt.Sprintf("%d more", len(list)-svgShown)
		list = append(list[:svgShown:svgShown], rest)
	}
	prefix := commonPrefix(list)
	names, longest, most := make([]string, len(list)), uint64(0), len("everything")
	for i, row := range list {
		names[i] = row.Name()
		if row.Module != "" && prefix != "" {
			names[i] = cmp.Or(strings.TrimPrefix(names[i][len(prefix):], "."), "(itself)")
		}
		most = max(most, min(utf8.RuneCountInString(names[i]), svgLongest))
		longest = max(longest, row.AtPeak.Total())
	}
	p := &picture{left: max(svgMargin+int(svgLetter*float64(most))+12, 130)}
	p.head(r)
	p.legend(r)
	p.bar(r, "everything", "everything", r.AtPeak, r.AtPeak.Total())
	p.y += 16
	note := fmt.Sprintf("By module, each without the modules inside it. The longest of these bars is %s.", device.FormatBytes(longest))
	p.note(p.y+12, note)
	if prefix != "" {
		p.y += 18
		p.note(p.y+12, "All are in "+prefix)
	}
	p.y += 26
	for i, row := range list {
		p.bar(r, names[i], row.Name(), row.AtPeak, longest)
	}
	_, err := io.WriteString(w, p.whole(r))
	return errors.Wrap(err, "memreport: writing SVG")
}

// commonPrefix is the path that all paths begin with, if there are several. It may be one of them.
func commonPrefix(list []Row) string {
	var common []string
	paths := 0
	for _, row := range list {
		if row.Module == "" {
			continue
		}
		parts := strings.Split(row.Module, ".")
		if paths++; paths == 1 {
			common = parts
		}
		n := 0
		for n < min(len(common), len(parts)) && common[n] == parts[n] {
			n++
		}
		common = common[:n]
	}
	if paths < 2 {
		return ""
	}
	return strings.Join(common, ".")
}

// heading is what the picture is of.
func (r *Report) heading() string {
	return fmt.Sprintf("%s: %s allocated at the peak", r.Device, device.FormatBytes(r.Peak))
}

func (p *picture) head(r *Report) {
	p.text(svgMargin, 34, `class="head"`, r.heading())
	p.note(54, fmt.Sprintf("%s, with %s reserved", r.PeakAt, device.FormatBytes(r.Reserved)))
	p.y = 74
}

// whole is the file: its size is known only at the end.
func (p *picture) whole(r *Report) string {
	var b strings.Builder
	width, height := max(p.left+svgBars+svgSizes, p.notes), p.y+12
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n", html.EscapeString(r.heading()))
	b.WriteString(".paper { fill: #ffffff } text { fill: #1f2328 } .note { fill: #59636e } .head { font-size: 16px; font-weight: 600 }\n" +
		".path { font-family: ui-monospace, 'DejaVu Sans Mono', monospace; font-size: 11px }\n" +
		"@media (prefers-color-scheme: dark) { .paper { fill: #0d1117 } text { fill: #e6edf3 } .note { fill: #9198a1 }")
	for i, c := range darkColors {
		fmt.Fprintf(&b, " .c%d { fill: %s }", i, c)
	}
	b.WriteString(" }\n</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n")
	return b.String() + p.String() + "</svg>\n"
}

// legend names the colors of the categories that there are, in columns.
func (p *picture) legend(r *Report) {
	column, shown := (p.left+svgBars+svgSizes-2*svgMargin)/svgColumns, 0
	for i, n := range r.AtPeak.list() {
		if n == 0 {
			continue
		}
		x, y := svgMargin+column*(shown%svgColumns), p.y+20*(shown/svgColumns)
		fmt.Fprintf(p, "<rect class=\"c%d\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\"/>\n", i, x, y, colors[i])
		p.text(x+18, y+10, "", categoryNames[i]+" "+size(n))
		shown++
	}
	p.y += 20*((shown+svgColumns-1)/svgColumns) + 14
}

// bar draws a row whose length is a share of full.
func (p *picture) bar(r *Report, name, whole string, c Categories, full uint64) {
	if n := utf8.RuneCountInString(name); n > svgLongest {
		runes := []rune(name)
		name = string(runes[:svgLongest/2]) + "…" + string(runes[n-svgLongest/2+1:])
	}
	p.text(p.left-10, p.y+12, `class="path" text-anchor="end"`, name)
	at := func(n uint64) float64 {
		if full == 0 {
			return float64(p.left)
		}
		return float64(p.left) + svgBars*float64(n)/float64(full)
	}
	sum := uint64(0)
	for i, n := range c.list() {
		if n > 0 {
			fmt.Fprintf(p, "<rect class=\"c%d\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>%s: %s, %d bytes</title></rect>\n",
				i, at(sum), p.y, at(sum+n)-at(sum), svgRow-6, colors[i], html.EscapeString(whole), categoryNames[i], n)
		}
		sum += n
	}
	beside := size(sum)
	switch share := percent(sum, r.Peak); {
	case sum > 0 && share < 0.1:
		beside += " · < 0.1 %"
	case sum > 0:
		beside += fmt.Sprintf(" · %.1f %%", share)
	}
	p.text(int(at(sum))+8, p.y+12, "", beside)
	p.y += svgRow
}

// note writes a line, for which the picture is wide enough.
func (p *picture) note(y int, text string) {
	p.text(svgMargin, y, `class="note"`, text)
	p.notes = max(p.notes, 2*svgMargin+svgNote*utf8.RuneCountInString(text))
}

func (p *picture) text(x, y int, attributes, text string) {
	if attributes != "" {
		attributes = " " + attributes
	}
	fmt.Fprintf(p, "<text x=\"%d\" y=\"%d\"%s>%s</text>\n", x, y, attributes, html.EscapeString(text))
}
