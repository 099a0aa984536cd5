// Package plotfile writes plots into files, for examples and benchmarks.
package plotfile

import (
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // png
	_ "gonum.org/v1/plot/vg/vgsvg" // svg

	"github.com/cistern-ml/cistern/internal/atomicfile"
)

// Drawable reports whether Save can write a file of this name: PNG or SVG.
func Drawable(file string) bool {
	f := format(file)
	return f == "png" || f == "svg"
}

func format(file string) string {
	return strings.TrimPrefix(strings.ToLower(filepath.Ext(file)), ".")
}

// margin is around plots: what stands at the edge would be cut off.
const margin = 4 * vg.Millimeter

// Save draws p, of a width and a height in centimetres, into a PNG or SVG file: a whole one, or what was there stays.
func Save(file string, p *plot.Plot, width, height float64) error {
	image, err := draw.NewFormattedCanvas(vg.Length(width)*vg.Centimeter, vg.Length(height)*vg.Centimeter, format(file))
	if err != nil {
		return err
	}
	p.Draw(draw.Crop(draw.New(image), margin, -margin, margin, -margin))
	return atomicfile.Write(atomicfile.OS{}, file, func(f atomicfile.File) error {
		_, err := image.WriteTo(f)
		return err
	})
}
