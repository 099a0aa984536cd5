package digits

import (
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"strings"
)

// inks are characters with more and more ink.
const inks = " .:-=+*#%@"

// wide and high are the characters of a digit in a text.
const (
	wide = 14
	high = 7
)

// Text writes the first n images side by side, in characters.
func Text(w io.Writer, pixels []float32, side, n int) error {
	var b strings.Builder
	for y := range high {
		line := ""
		for i := range min(n, len(pixels)/(side*side)) {
			for x := range wide {
				line += string(inks[ink(pixels[i*side*side:], side, y, x)])
			}
			line += " "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ink is how dark a character is: the mean of its pixels.
func ink(image []float32, side, y, x int) int {
	sum, n := 0.0, 0
	for i := y * side / high; i < (y+1)*side/high; i++ {
		for j := x * side / wide; j < (x+1)*side/wide; j++ {
			sum += float64(brightness(image[i*side+j]))
			n++
		}
	}
	return int(sum / float64(max(n, 1)) / 256 * float64(len(inks)))
}

// brightness is 0 for -1, 255 for 1, and for what is neither a number nor in between the nearest.
func brightness(v float32) uint8 {
	if !(v > -1) {
		return 0
	}
	return uint8(math.Round(255 * float64(min(v+1, 2)) / 2))
}

// WritePNG writes images as one, in rows of ten. An empty name is none.
func WritePNG(file string, pixels []float32, side int) (err error) {
	const columns = 10
	n := len(pixels) / (side * side)
	if file == "" || n == 0 {
		return nil
	}
	all := image.NewGray(image.Rect(0, 0, min(n, columns)*(side+1), (n+columns-1)/columns*(side+1)))
	for i := range n {
		for k, v := range pixels[i*side*side : (i+1)*side*side] {
			all.SetGray(i%columns*(side+1)+k%side, i/columns*(side+1)+k/side, color.Gray{Y: brightness(v)})
		}
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return png.Encode(f, all)
}

// Shown is how many images Show shows at most.
const Shown = 40

// Show is what programs end with: some of the images in characters, and the first ones in a file, if that has a name.
func Show(w io.Writer, file string, pixels []float32, side int) error {
	const texts = 8
	if len(pixels) == 0 { // interrupted before there were any
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	if err := Text(w, pixels, side, texts); err != nil {
		return err
	}
	return WritePNG(file, pixels[:min(Shown*side*side, len(pixels))], side)
}
