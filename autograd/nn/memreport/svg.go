package memreport

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/device"
)

// colors are those of the categories, in their order: of Okabe and Ito's palette, which is told apart by all.
var colors = [...]string{"#0072b2", "#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#999999"}

// The picture, in pixels.
const (
	svgNames  = 240 // the left edge of the bars
	svgBars   = 640 // of the longest
	svgSizes  = 100 // right of them
	svgRow    = 20
	svgBars0  = 70 // the upper edge of the first bar
	svgShown  = 30 // modules
	svgLetter = 7  // about the width of a letter
)

// WriteSVG draws what was allocated at the peak as a picture: a bar for everything, and one for each of the 30 largest modules, divided into
// categories. The lengths of the modules' bars are in proportion to each other.
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
	longest := uint64(0)
	for _, row := range list {
		longest = max(longest, row.AtPeak.Total())
	}
	var b strings.Builder
	height := svgBars0 + svgRow*(len(list)+3)
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n", svgNames+svgBars+svgSizes, height)
	b.WriteString("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n")
	svgText(&b, 10, 24, "start", fmt.Sprintf("%s: %s allocated at the peak", r.Device, device.FormatBytes(r.Peak)))
	r.legend(&b)
	r.bar(&b, svgBars0, "everything", r.AtPeak, r.AtPeak.Total())
	for i, row := range list {
		r.bar(&b, svgBars0+svgRow*(i+2), row.Name(), row.AtPeak, longest)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return errors.Wrap(err, "memreport: writing SVG")
}

// legend names the colors of the categories that there are.
func (r *Report) legend(b *strings.Builder) {
	x := 10
	for i, n := range r.AtPeak.list() {
		if n == 0 {
			continue
		}
		text := categoryNames[i] + " " + size(n)
		fmt.Fprintf(b, "<rect x=\"%d\" y=\"38\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, colors[i])
		svgText(b, x+16, 48, "start", text)
		x += 32 + svgLetter*len(text)
	}
}

// bar draws a row whose length is a share of whole.
func (r *Report) bar(b *strings.Builder, y int, name string, c Categories, whole uint64) {
	if most := (svgNames - 20) / svgLetter; len(name) > most {
		name = "…" + name[len(name)-most:]
	}
	svgText(b, svgNames-8, y+12, "end", name)
	if whole == 0 {
		return
	}
	at := func(n uint64) float64 { return svgNames + svgBars*float64(n)/float64(whole) }
	sum := uint64(0)
	for i, n := range c.list() {
		if n > 0 {
			fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>%s: %s, %d bytes</title></rect>\n",
				at(sum), y, at(sum+n)-at(sum), svgRow-4, colors[i], html.EscapeString(name), categoryNames[i], n)
		}
		sum += n
	}
	svgText(b, int(at(sum))+6, y+12, "start", size(sum))
}

func svgText(b *strings.Builder, x, y int, anchor, text string) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, html.EscapeString(text))
}
