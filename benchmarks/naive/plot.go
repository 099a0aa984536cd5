package main

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/cistern-ml/cistern/internal/plotfile"
)

// colors are those of the allocators, in the order of the subjects; PyTorch's is the last.
var colors = []color.Color{
	color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff},
	color.RGBA{R: 0xff, G: 0x7f, B: 0x0e, A: 0xff},
	color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff},
	color.RGBA{R: 0x2c, G: 0xa0, B: 0x2c, A: 0xff},
	color.RGBA{R: 0x94, G: 0x67, B: 0xbd, A: 0xff},
}

// draw makes a bar for each allocator under each workload: its time in microseconds, on a logarithmic axis because the times
// of a training step and of a request that a cache serves lie far apart.
func (r *report) draw(file string) error {
	p, err := r.plot()
	if err != nil {
		return err
	}
	return plotfile.Save(file, p, 24, 12)
}

func (r *report) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "time of a training step, or of an allocation and its free\n" + r.Device + " (" + r.Name + ")"
	if r.Assumed != "" {
		p.Title.Text += "\ndriver times are assumed"
	}
	p.Y.Label.Text = "µs"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Padding = true, vg.Millimeter

	names := uniques(r.Results, func(x *Result) string { return x.Allocator })
	loads := uniques(r.Results, func(x *Result) string { return x.Workload })
	width := vg.Points(400 / float64(len(loads)*(len(names)+1))) // in all, less than the axis has for the bars
	floor := slices.Min(r.times()) / 2                           // where bars begin: a logarithmic axis has no 0
	p.Y.Min, p.Y.Max = floor, 2*slices.Max(r.times())
	for i, name := range names {
		bars, err := r.bars(name, loads, floor, width)
		if err != nil {
			return nil, err
		}
		bars.Offset = width * vg.Length(float64(i)-float64(len(names)-1)/2)
		p.Add(bars)
		p.Legend.Add(name, bars)
	}
	p.NominalX(loads...)
	p.X.Min, p.X.Max = -0.5, 1.2*float64(len(loads))-0.5 // bars end half a place from their middle; the legend stands beside the last
	return p, nil
}

// bars are those of one allocator. They stand on others that are not drawn, which end at the floor; where there is no result
// they have no height.
func (r *report) bars(name string, loads []string, floor float64, width vg.Length) (*plotter.BarChart, error) {
	bottom, heights := make(plotter.Values, len(loads)), make(plotter.Values, len(loads))
	for i := range bottom {
		bottom[i] = floor
	}
	for _, x := range r.Results {
		if x.Allocator == name {
			heights[slices.Index(loads, x.Workload)] = x.NsPerUnit/1e3 - floor
		}
	}
	base, err := plotter.NewBarChart(bottom, width)
	if err != nil {
		return nil, err
	}
	bars, err := plotter.NewBarChart(heights, width)
	if err != nil {
		return nil, err
	}
	bars.StackOn(base)
	bars.LineStyle.Width, bars.Color = 0, colors[colorOf(name)]
	return bars, nil
}

func (r *report) times() (list []float64) {
	for _, x := range r.Results {
		list = append(list, x.NsPerUnit/1e3)
	}
	return list
}

// colorOf is the place of an allocator among the colors.
func colorOf(name string) int {
	if i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == name }); i >= 0 {
		return i
	}
	return len(colors) - 1
}

// uniques are the values of a key, each once, in order.
func uniques(list []*Result, key func(*Result) string) (out []string) {
	for _, x := range list {
		if k := key(x); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}
