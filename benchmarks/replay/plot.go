package main

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/plotfile"
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

const (
	maxPoints = 2000 // of a line in the plot: more than it has pixels
	maxMarks  = 100  // more marks than this would cover the plot, and are left out
)

// curve collects memory over time. Each point is the highest value among the events since the point before, so that no peak
// is lost.
type curve struct {
	every     int // events between two points
	allocated plotter.XYs
	reserved  plotter.XYs
}

func newCurve(t *trace.Trace) *curve {
	return &curve{every: (len(t.Events) + maxPoints - 1) / maxPoints}
}

// after is the replay's hook.
func (c *curve) after(a memory.Allocator, event int) error {
	s := a.Stats()
	if len(c.allocated) == 0 || event > int(c.allocated[len(c.allocated)-1].X) {
		end := float64((event + c.every - 1) / c.every * c.every)
		c.allocated = append(c.allocated, plotter.XY{X: end})
		c.reserved = append(c.reserved, plotter.XY{X: end})
	}
	last := len(c.allocated) - 1
	c.allocated[last].Y = max(c.allocated[last].Y, float64(s.AllocatedBytes.All.Current))
	c.reserved[last].Y = max(c.reserved[last].Y, float64(s.ReservedBytes.All.Current))
	return nil
}

var (
	blue   = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	orange = color.RGBA{R: 0xff, G: 0x7f, B: 0x0e, A: 0xff}
	red    = color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}
	grey   = color.Gray{Y: 0xd0}
)

// save draws the curve into a file whose name ends in .png or .svg: the two lines, marks in grey, failed requests in red.
func (c *curve) save(file string, r *replay.Result) error {
	top, unit, name := 0.0, device.MiB, "MiB"
	for _, p := range c.reserved {
		top = max(top, p.Y)
	}
	if top >= 10*float64(device.GiB) {
		unit, name = device.GiB, "GiB"
	}
	p := plot.New()
	p.Title.Text = strings.TrimSpace(r.Trace + "  " + r.Config.AllocConf)
	p.X.Label.Text = "events"
	p.Y.Label.Text = name
	p.Y.Min, p.Y.Max = 0, 1.2*top/float64(unit) // the legend stands above all lines
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.Padding = true, true, 2*vg.Millimeter, vg.Millimeter

	d := drawing{plot: p, unit: float64(unit)}
	if len(r.Marks) <= maxMarks {
		for _, m := range r.Marks {
			d.vertical(float64(m.Event), top, grey)
		}
	}
	for _, o := range r.OOMs {
		d.vertical(float64(o[0]), top, red)
	}
	d.line("reserved", c.reserved, orange)
	d.line("allocated", c.allocated, blue)
	if d.err != nil {
		return d.err
	}
	return plotfile.Save(file, p, 24, 12)
}

// drawing adds to a plot and keeps the first error.
type drawing struct {
	plot *plot.Plot
	unit float64 // bytes
	err  error
}

func (d *drawing) add(xys plotter.XYs, c color.Color, width vg.Length) *plotter.Line {
	scaled := make(plotter.XYs, len(xys))
	for i, p := range xys {
		scaled[i] = plotter.XY{X: p.X, Y: p.Y / d.unit}
	}
	line, err := plotter.NewLine(scaled)
	if err != nil {
		if d.err == nil {
			d.err = err
		}
		return nil
	}
	line.Color, line.Width = c, width
	d.plot.Add(line)
	return line
}

func (d *drawing) vertical(x, top float64, c color.Color) {
	d.add(plotter.XYs{{X: x}, {X: x, Y: top}}, c, vg.Points(0.5))
}

// line draws steps: a point's value is that of the events before it.
func (d *drawing) line(name string, xys plotter.XYs, c color.Color) {
	if len(xys) == 0 {
		return // a trace of marks alone
	}
	if line := d.add(xys, c, vg.Points(1)); line != nil {
		line.StepStyle = plotter.PreStep
		d.plot.Legend.Add(name, line)
	}
}
