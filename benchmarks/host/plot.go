package main

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/cistern-ml/cistern/internal/plotfile"
)

var (
	aheadColor  = color.RGBA{R: 0x1f, G: 0x3f, B: 0x74, A: 0xff}
	behindColor = color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}
)

// drawRatios writes a plot to a file, if it has a name: a point for each case at its ratio, those farthest behind on top, and a line at 1.
func drawRatios(file string, rows []row) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Ratio <= 0 })
	if file == "" || len(rows) == 0 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.Ratio, a.Ratio) })
	p := plot.New()
	p.Title.Text = fmt.Sprintf("processor time of the peer over ours, %d cases", len(rows))
	p.X.Label.Text = "ratio: above 1 we are ahead"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ratioTicks{}
	p.Add(plotter.NewGrid())
	var names []string
	for i, r := range rows {
		names = append(names, r.Case)
		one, err := plotter.NewScatter(plotter.XYs{{X: r.Ratio, Y: float64(i)}})
		if err != nil {
			return err
		}
		one.Shape, one.Radius, one.Color = draw.CircleGlyph{}, vg.Points(2), aheadColor
		if r.Ratio < 1 {
			one.Color = behindColor
		}
		p.Add(one)
	}
	p.X.Min, p.X.Max = min(0.5, rows[len(rows)-1].Ratio), max(2, rows[0].Ratio)
	even, err := plotter.NewLine(plotter.XYs{{X: 1, Y: -1}, {X: 1, Y: float64(len(rows))}})
	if err != nil {
		return err
	}
	p.Add(even)
	p.NominalY(names...)
	return plotfile.Save(file, p, 26, float64(len(rows)+6)*0.42)
}

// ratioTicks are powers of 2.
type ratioTicks struct{}

func (ratioTicks) Ticks(from, to float64) (list []plot.Tick) {
	for v := 1.0 / 16; v <= to; v *= 2 {
		if v >= from {
			list = append(list, plot.Tick{Value: v, Label: fmt.Sprint(v)})
		}
	}
	return list
}
