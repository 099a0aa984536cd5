package main

import (
	"image/color"

	"github.com/pkg/errors"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/cistern-ml/cistern/internal/plotfile"
)

// lines are how the three losses are drawn: the later ones thinner, so that lines which lie over each other are all seen.
var lines = []struct {
	color color.Color
	width float64
}{
	{color.RGBA{R: 0xbb, G: 0xcc, B: 0xee, A: 0xff}, 5},
	{color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}, 2},
	{color.RGBA{R: 0x1f, G: 0x3f, B: 0x74, A: 0xff}, 0.75},
}

// draw writes the losses of all steps as PNG or SVG.
func (r *report) draw(file string) error {
	p := plot.New()
	p.Title.Text = "training loss in three precisions"
	p.X.Label.Text, p.Y.Label.Text = "step", "loss"
	p.Legend.Top, p.Legend.Padding = true, vg.Millimeter
	for i, t := range r.Trainings {
		points := make(plotter.XYs, len(t.Losses))
		for j, l := range t.Losses {
			points[j] = plotter.XY{X: float64(j + 1), Y: l}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return errors.Wrap(err, "drawing "+t.Name)
		}
		line.Color, line.Width = lines[i].color, vg.Points(lines[i].width)
		p.Add(line)
		p.Legend.Add(t.Name, line)
	}
	return errors.Wrap(plotfile.Save(file, p, 18, 11), "drawing the losses")
}
